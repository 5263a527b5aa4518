"""The window on simulated links: it fills them and keeps their queues short."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from littoral.worlds.wire.window import LEAST_CHUNK, MOST_BYTES, MOST_CHUNK, START_BYTES, Window

MBIT = 125_000.0


@dataclass
class Link:
    """One bottleneck with a queue, a propagation delay each way, and a receiver that answers only at ``ticks``."""

    rate: Callable[[float], float]
    delay: Callable[[float], float]
    tick_s: float = 0.0  # a receiver under a CPU quota answers at multiples of this
    free_at: float = 0.0
    waits: list[tuple[float, float]] = field(default_factory=list)
    last_arrival: float = 0.0

    def carry(self, size: int, now: float) -> float:
        """When the acknowledgement of a chunk sent now is back."""
        start = max(now, self.free_at)
        self.waits.append((now, start - now))
        self.free_at = start + size / self.rate(start)
        arrival = max(self.last_arrival, self.free_at + self.delay(start))
        self.last_arrival = arrival
        if self.tick_s:
            arrival = (int(arrival / self.tick_s) + 1) * self.tick_s
        return arrival + self.delay(start)


@dataclass
class Outcome:
    """What a simulated sender achieved."""

    delivered: list[tuple[float, int]]
    waits: list[tuple[float, float]]
    window: Window

    def rate(self, start: float, stop: float) -> float:
        return sum(size for at, size in self.delivered if start < at <= stop) / (stop - start)

    def worst_wait(self, start: float, stop: float) -> float:
        return max(wait for at, wait in self.waits if start < at <= stop)


def saturate(link: Link, seconds: float, has_data: Callable[[float], bool] = lambda now: True) -> Outcome:
    """Send as much as the window allows; the event loop is a heap of acknowledgements."""
    window, now = Window(), 0.0
    window.heard(2 * link.delay(0.0), 0.0)
    acks: list[tuple[float, int, int, float]] = []
    delivered, number = [], 0
    while now < seconds:
        while has_data(now) and window.in_flight < window.limit and not window.pace(now):
            size = window.chunk
            window.sent(size, now)
            heapq.heappush(acks, (link.carry(size, now), number, size, now))
            number += 1
        if not has_data(now):
            window.pause()
        wake = now + max(window.pace(now), 0.001)  # a timer of the loop is no finer than this
        if not acks or wake < acks[0][0]:
            now = wake
            continue
        now, batch = acks[0][0], []
        while acks and acks[0][0] == now:
            batch.append(heapq.heappop(acks))
        window.acknowledged(sum(size for _, _, size, _ in batch), batch[-1][3], now)
        delivered += [(now, size) for _, _, size, _ in batch]
    return Outcome(delivered, link.waits, window)


def steady(mbit: float, round_trip_s: float, tick_s: float = 0.0) -> Link:
    return Link(lambda now: mbit * MBIT, lambda now: round_trip_s / 2, tick_s)


SETTINGS = [(mbit, round_trip_s) for mbit in (1, 20, 100, 1000) for round_trip_s in (0.0002, 0.020, 0.080)]


@pytest.mark.parametrize(("mbit", "round_trip_s"), [*SETTINGS, (10_000, 0.0002)])
def test_fills_a_link_with_a_short_queue(mbit: float, round_trip_s: float) -> None:
    out = saturate(steady(mbit, round_trip_s), 30.0)
    assert out.rate(5, 30) >= 0.97 * mbit * MBIT
    assert out.worst_wait(5, 30) <= 0.030 + 2 * LEAST_CHUNK / (mbit * MBIT)  # chunks have a least size


@pytest.mark.parametrize("mbit", [20, 100, 1000])
def test_late_acknowledgements_do_not_leave_the_link_idle(mbit: float) -> None:
    out = saturate(steady(mbit, 0.001, tick_s=0.016), 20.0)
    assert out.rate(5, 20) >= 0.97 * mbit * MBIT
    assert out.worst_wait(5, 20) <= 0.045


@pytest.mark.parametrize(("before", "after"), [(100, 20), (20, 100), (1000, 10), (5, 500)])
def test_follows_a_link_that_changes_its_rate(before: float, after: float) -> None:
    out = saturate(Link(lambda now: (before if now < 10 else after) * MBIT, lambda now: 0.010), 30.0)
    assert out.rate(15, 30) >= 0.97 * after * MBIT
    assert out.worst_wait(15, 30) <= 0.035


@pytest.mark.parametrize(("before_s", "after_s"), [(0.010, 0.100), (0.100, 0.010), (0.020, 0.060)])
def test_follows_a_link_that_changes_its_latency(before_s: float, after_s: float) -> None:
    out = saturate(Link(lambda now: 100 * MBIT, lambda now: (before_s if now < 10 else after_s) / 2), 45.0)
    assert out.rate(20, 45) >= 0.97 * 100 * MBIT
    assert out.worst_wait(25, 45) <= 0.040


def test_a_pause_is_not_taken_for_a_slow_link() -> None:
    busy = saturate(steady(100, 0.010), 20.0, has_data=lambda now: now % 1.0 < 0.2)
    assert busy.window.rate == pytest.approx(100 * MBIT, rel=0.05)


def test_a_trickle_tells_nothing_about_the_rate() -> None:
    window = Window()
    for number in range(1000):
        window.sent(1000, 0.01 * number)
        window.pause()
        window.acknowledged(1000, 0.01 * number, 0.01 * number + 0.005)
    assert window.rate is None
    assert window.limit == START_BYTES


def test_begins_small_and_stays_between_its_bounds() -> None:
    window = Window()
    assert window.limit == START_BYTES
    assert LEAST_CHUNK <= window.chunk <= START_BYTES
    out = saturate(Link(lambda now: 1e11, lambda now: 0.0001), 0.5)
    assert out.window.limit == MOST_BYTES
    assert out.window.chunk == MOST_CHUNK


def test_a_new_connection_begins_anew() -> None:
    out = saturate(steady(1000, 0.001), 2.0)
    out.window.restart()
    assert (out.window.limit, out.window.in_flight, out.window.rate) == (START_BYTES, 0, None)


def test_control_messages_that_never_stop_do_not_keep_bulk_from_being_sent() -> None:
    window, link, now = Window(), steady(100, 0.010), 0.0
    window.heard(0.010, 0.0)
    acks: list[tuple[float, int, float]] = []
    sent, longest, blocked_since = 0, 0.0, 0.0
    while now < 30.0:
        window.sent(5000, now)  # a control message every millisecond, whatever the window says
        acks.append((link.carry(5000, now), 5000, now))
        while window.in_flight < window.limit and not window.pace(now):
            size = window.chunk
            window.sent(size, now)
            acks.append((link.carry(size, now), size, now))
            sent, longest, blocked_since = sent + size, max(longest, now - blocked_since), now
        now += 0.001
        while acks and acks[0][0] <= now:
            _, size, sent_at = acks.pop(0)
            window.acknowledged(size, sent_at, now)
    assert sent > 30.0 * 50 * MBIT
    assert longest < 0.2


def burst(window: Window, link: Link, size: int, now: float) -> float:
    """Send that many bytes, wait until all of them are acknowledged; when that is."""
    acks: list[tuple[float, int, float]] = []
    left = size
    while left or acks:
        while left and window.in_flight < window.limit:
            chunk = min(left, window.chunk)
            left -= chunk
            window.sent(chunk, now)
            acks.append((link.carry(chunk, now), chunk, now))
        if not left:
            window.pause()
        now, chunk, sent_at = acks.pop(0)
        window.acknowledged(chunk, sent_at, now)
    return now


@pytest.mark.parametrize(("mbit", "round_trip_s"), [(50, 0.040), (20, 0.080), (100, 0.020), (1000, 0.0002)])
def test_bursts_get_through_as_fast_as_the_link_though_the_first_was_slow(mbit: float, round_trip_s: float) -> None:
    """A vector now and then, as workers send: TCP begins slowly, and what was learned then must not last."""
    link = Link(lambda now: (0.1 if now < 0.5 else 1.0) * mbit * MBIT, lambda now: round_trip_s / 2)
    window, now, size = Window(), 0.0, 431_000
    window.heard(round_trip_s, 0.0)
    for _ in range(12):
        now = burst(window, link, size, now + 0.1)
    began = now + 0.1
    took = burst(window, link, size, began) - began
    assert took <= 1.1 * (size / (mbit * MBIT) + round_trip_s) + 0.001


def test_bursts_on_a_link_that_becomes_slow_stand_in_a_short_queue() -> None:
    link = Link(lambda now: (200 if now < 3 else 10) * MBIT, lambda now: 0.005)
    window, now = Window(), 0.0
    window.heard(0.010, 0.0)
    while now < 8:
        now = burst(window, link, 431_000, now + 0.1)
    late = [wait for at, wait in link.waits if at > 7]
    assert max(late) <= START_BYTES / (10 * MBIT)


@pytest.mark.parametrize("late_s", [0.02, 0.05, 0.1, 0.2])
def test_a_sender_that_wakes_late_does_not_take_the_link_for_slow(late_s: float) -> None:
    """Short of processor time, clocks ring late and acknowledgements are read late; a push must not take minutes."""
    link, window, now, took = steady(100, 0.002), Window(), 0.0, list[float]()
    late = random.Random(1)
    for _ in range(40):
        began, left, acks = now, 1_250_000, deque[tuple[float, int, float]]()
        while left or acks:
            heard = acks[0][0] if acks else math.inf
            rings = now + window.pace(now) if left and window.in_flight < window.limit else math.inf
            now = min(heard, rings) + 2 * late_s * late.random()
            if rings < now:
                window.rang(now - rings)
            while acks and acks[0][0] <= now:
                _, size, sent_at = acks.popleft()
                window.acknowledged(size, sent_at, now)
            while left and window.in_flight < window.limit and not window.pace(now):
                size = min(left, window.chunk)
                window.sent(size, now)
                acks.append((link.carry(size, now), size, now))
                left -= size
            if not left:
                window.pause()
        took.append(now - began)
        now += 1.0
    assert max(took) <= 0.1 + 16 * late_s  # the link alone takes 0.1 s
