"""Periods, latencies, drops and misses, with real threads; what is asserted is order and count, never how long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import pytest

from littoral.apps.pacing import pace, release_s, run_app
from littoral.apps.registry import Setting
from littoral.apps.tally import Tally
from littoral.continuum.app import App
from littoral.errors import InputError
from littoral.events import AppChecked, DeadlineMissed, Event

PERIOD_S = 0.01


class Enough(Exception):
    """A test has seen what it wanted to see."""


def paced(
    work: Callable[[], None], seen: Callable[[list[float | None]], bool], clock: Callable[[], float] = time.monotonic
) -> list[float | None]:
    """The latencies recorded until ``seen`` is content with them."""
    records: list[float | None] = []

    def record(latency: float | None) -> None:
        records.append(latency)
        if seen(records):
            raise Enough

    async def story() -> None:
        with ThreadPoolExecutor(1) as thread, suppress(Enough):
            async with asyncio.timeout(10):
                await pace(work, record, first_s=clock() + PERIOD_S, period_s=PERIOD_S, clock=clock, thread=thread)

    asyncio.run(story())
    return records


def test_work_is_released_again_and_again() -> None:
    calls: list[int] = []
    records = paced(lambda: calls.append(1), lambda records: sum(r is not None for r in records) == 5)
    done = [latency for latency in records if latency is not None]
    assert len(calls) == len(done) == 5 and all(latency > 0 for latency in done)


def test_shaken_releases_fall_into_step_with_nothing() -> None:
    """Steps of half a period meet unshaken releases at one phase, and shaken ones at all that the shake allows."""
    for shake, spread in ((0.0, 0.0), (0.45, 0.9)):
        releases = [release_s(number, 0.05, 2.0, shake) for number in range(200)]
        phases = [release % 1.0 for release in releases]
        assert all(later > earlier for earlier, later in pairwise(releases))
        assert max(phases) - min(phases) == pytest.approx(spread, abs=0.02)


def test_releases_during_work_are_dropped() -> None:
    """The work ends when three releases were dropped since it began."""
    begun, dropped = threading.Event(), threading.Event()
    since: list[None] = []

    def work() -> None:
        begun.set()
        dropped.wait(10)

    def seen(records: list[float | None]) -> bool:
        if begun.is_set() and records[-1] is None:
            since.append(None)
        if len(since) == 3:
            dropped.set()
        return records[-1] is not None

    *drops, last = paced(work, seen)
    assert not any(drops) and last is not None
    assert last >= 2 * PERIOD_S  # counted from its own release, before at least three others


def test_periods_that_a_stopped_process_sleeps_through_are_dropped() -> None:
    """After the first period the clock jumps fifty ahead, as it does for a process that was stopped."""
    shift = [0.0]

    def seen(records: list[float | None]) -> bool:
        done = sum(record is not None for record in records)
        shift[0] = 50 * PERIOD_S if done else 0.0
        return done == 2

    records = paced(lambda: None, seen, lambda: time.monotonic() + shift[0])
    first = next(at for at, record in enumerate(records) if record is not None)
    assert records[first + 1 : -1].count(None) >= 49 and records[-1] is not None


def test_an_error_in_the_work_is_not_hidden() -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paced(work, lambda records: False)


def test_a_tally() -> None:
    tally = Tally(deadline_s=0.2)
    assert [tally.add(latency) for latency in (0.1, 0.2, 0.3, None)] == [True, True, False, False]
    assert (tally.checked, tally.violated, tally.worst_s) == (4, 2, 0.3)
    assert tally.mean_s == pytest.approx(0.2)
    assert Tally(deadline_s=1).mean_s == 0


# -- whole apps ----------------------------------------------------------------------------------------------------


def watched(app: App, enough: Callable[[list[Event]], bool] = lambda events: len(events) >= 4) -> list[Event]:
    """What an app emits until there is enough of it, and when it is ended."""
    events: list[Event] = []

    async def story() -> None:
        start = time.monotonic()
        task = asyncio.create_task(run_app(app, "nano-1", events.append, lambda: time.monotonic() - start))
        async with asyncio.timeout(20):
            while not enough(events) and not task.done():
                await asyncio.sleep(0.005)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    return events


def busy(work_s: float, deadline_s: float) -> App:
    return App(name="load", on=("nano-1",), period_s=0.02, deadline_s=deadline_s, work_s=work_s)


def late(events: list[Event]) -> int:
    return sum(isinstance(event, DeadlineMissed) and event.latency_s is not None for event in events)


def test_work_beyond_the_deadline_is_missed_every_time() -> None:
    *misses, account = watched(busy(work_s=0.005, deadline_s=0.001), lambda events: late(events) >= 3)
    assert isinstance(account, AppChecked) and (account.app, account.node) == ("load", "nano-1")
    assert all(isinstance(miss, DeadlineMissed) and miss.app == "load" for miss in misses)
    assert account.checked == account.violated == len(misses)
    assert account.worst_s >= account.mean_s >= 0.005


def test_work_beyond_the_period_drops_the_next() -> None:
    *misses, account = watched(busy(work_s=0.03, deadline_s=10.0), lambda events: len(events) >= 3)
    assert isinstance(account, AppChecked) and account.checked >= account.violated == len(misses) >= 3
    assert all(isinstance(miss, DeadlineMissed) and miss.latency_s is None for miss in misses)


class Counting:
    """An app of this test's own."""

    calls = 0

    def __init__(self, setting: Setting) -> None: ...
    def prepare(self) -> None: ...
    def close(self) -> None: ...

    def work(self) -> None:
        Counting.calls += 1


def test_work_within_the_deadline_is_only_counted() -> None:
    """A machine under load may drop periods; none that is worked on can be late."""
    app = App(name="load", on=(), period_s=0.02, deadline_s=60.0, work_s=0.0, run=f"{__name__}:Counting")
    *drops, account = watched(app, lambda events: Counting.calls >= 5)
    assert isinstance(account, AppChecked) and not late(drops)
    assert account.violated == len(drops) and account.checked - account.violated >= 4 and account.mean_s > 0


def test_ended_apps_leave_no_thread() -> None:
    before = set(threading.enumerate())
    watched(busy(work_s=0.002, deadline_s=0.001))
    assert not [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("app-")]


def test_an_unknown_app_is_refused_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"did you mean 'littoral\.apps\.sift'"):
        watched(App(name="x", on=(), period_s=1, deadline_s=1, work_s=0, run="littoral.apps.shift"))
