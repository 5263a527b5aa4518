"""Periods kept in real time: an app is released on schedule and works in a thread of its own; its latency is booked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial

from littoral.apps.registry import Address, Setting, find_app
from littoral.apps.sink import open_sink
from littoral.apps.tally import Tally
from littoral.continuum.app import App
from littoral.events import AppChecked, DeadlineMissed, Event

Clock = Callable[[], float]
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it, modulo 1, fill a unit evenly


async def pace(
    work: Callable[[], None], record: Callable[[float | None], None], *, first_s: float, period_s: float, clock: Clock,
    thread: ThreadPoolExecutor, shake: float = 0.0,
) -> None:  # fmt: skip
    """Release ``work`` at ``first_s`` and every period after, for ever; ``record`` gets each latency in seconds.

    Releases lie on an absolute schedule, and a latency counts from there: waking up late is the app's delay too. A
    release is dropped (None) when the work before is not done, or when all of its period was slept through. With
    ``shake``, releases are up to so much of a period late, each by another share of it: in step with nothing.
    """

    def timed() -> float:
        work()
        return clock()

    release, number = first_s, 0
    while True:
        await _until(release, clock)
        while release + period_s <= clock():  # the whole process was stopped for a while
            record(None)
            number, release = number + 1, release_s(number + 1, first_s, period_s, shake)
        job = asyncio.get_running_loop().run_in_executor(thread, timed)
        start = release
        while True:
            number, release = number + 1, release_s(number + 1, first_s, period_s, shake)
            done, _ = await asyncio.wait([job], timeout=max(0.0, release - clock()))
            if done:
                break
            record(None)
        record(job.result() - start)


def release_s(number: int, first_s: float, period_s: float, shake: float = 0.0) -> float:
    """When a release is due. Multiplied, not added up: a million additions would drift.

    >>> [release_s(number, 10.0, 2.0) for number in range(3)]
    [10.0, 12.0, 14.0]
    """
    return first_s + (number + shake * (number * _GOLDEN % 1)) * period_s


async def _until(moment: float, clock: Clock) -> None:
    while (left := moment - clock()) > 0:
        await asyncio.sleep(left)


async def run_app(
    app: App, device: str, emit: Callable[[Event], None], clock: Clock, *, seed: int = 0, cores: float = 1.0,
    sink: Address | None = None, shake: float = 0.0,
) -> None:  # fmt: skip
    """Run an app until cancelled: missed deadlines are emitted as they happen, the account at the end.

    ``clock`` gives the run's seconds. An app that needs a sink and is given none has one here, on the loopback.
    """
    kind, tally = find_app(app.run), Tally(app.deadline_s)

    def record(latency_s: float | None) -> None:
        if not tally.add(latency_s):
            emit(DeadlineMissed(clock(), app.name, device, latency_s))

    async with AsyncExitStack() as stack:
        if sink is None and getattr(kind, "needs_sink", False):
            sink, _ = await stack.enter_async_context(open_sink())
        real = kind(Setting(app=app, device=device, seed=seed, cores=cores, sink=sink))
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"app-{app.name}")
        stack.callback(thread.shutdown)
        in_thread = partial(asyncio.get_running_loop().run_in_executor, thread)
        stack.push_async_callback(in_thread, real.close)  # after the work that may still be going on
        await in_thread(real.prepare)
        try:
            first_s = clock() + app.period_s * random.Random(f"{seed}/app/{app.name}/{device}").random()
            await pace(
                real.work, record, first_s=first_s, period_s=app.period_s, clock=clock, thread=thread, shake=shake
            )
        finally:
            emit(AppChecked(clock(), app.name, device, tally.checked, tally.violated, tally.mean_s, tally.worst_s))
