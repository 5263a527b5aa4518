"""How long transfers take that share pipes: all at once, one after another, or again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from littoral.continuum.routes import Pipe, Route


def shared_rates(routes: Sequence[Route]) -> list[float]:
    """Bytes/s of flows that all run at once: each pipe divided evenly among those who pass it."""
    crowd: dict[Pipe, int] = {}
    for route in routes:
        for pipe in route.pipes:
            crowd[pipe] = crowd.get(pipe, 0) + 1
    return [min([route.flow_limit, *(pipe.capacity.mean() / crowd[pipe] for pipe in route.pipes)]) for route in routes]


def all_at_once(routes: Sequence[Route], sizes: Sequence[float]) -> float:
    """Seconds until transfers that begin together are through: those of the pipe with the most to carry, or one's own.

    Those that end early leave their share of a pipe to the others.
    """
    work: dict[Pipe, float] = {}
    for route, size in zip(routes, sizes, strict=True):
        for pipe in route.pipes:
            work[pipe] = work.get(pipe, 0.0) + size
    own = [size / route.flow_limit for route, size in zip(routes, sizes, strict=True)]
    return max([*own, *(size / pipe.capacity.mean() for pipe, size in work.items())])


def last_arrival(starts: Sequence[float], routes: Sequence[Route], size: float) -> float:
    """When the last of several transfers ends: its own time, and for each pipe everyone who came at or after it."""
    last = max(start + route.seconds(size) for start, route in zip(starts, routes, strict=True))
    passing: dict[Pipe, list[tuple[float, float]]] = {}
    for start, route in zip(starts, routes, strict=True):
        for pipe in route.pipes:
            passing.setdefault(pipe, []).append((start, route.latency_s))
    for pipe, users in passing.items():
        users.sort()
        for k, (start, latency) in enumerate(users):
            last = max(last, start + (len(users) - k) * size / pipe.capacity.mean() + latency)
    return last


@dataclass(frozen=True, slots=True)
class Leg:
    """A transfer within a cycle: its time alone, and what it needs of the shared pipe where it may have to queue."""

    alone: float
    pipe: Pipe | None = None
    need: float = 0.0


def queued_cycles(
    think: Sequence[float], legs: Sequence[Sequence[Leg]], ahead: int = 0, rounds: int = 300
) -> list[float]:
    """Cycle times of workers that think and then pass legs over pipes they share, ``1 + ahead`` times at once.

    Schweitzer's approximate mean-value analysis: a transfer finds at its pipe on average the queue of all others, each
    the share of its cycle that it spends there; iterated until it stands.
    """
    count = 1 + ahead
    trips = [z + sum(leg.alone for leg in mine) for z, mine in zip(think, legs, strict=True)]
    times = [[leg.alone for leg in mine] for mine in legs]
    for _ in range(rounds):
        queue: dict[Pipe, float] = {}
        for mine, spent, trip in zip(legs, times, trips, strict=True):
            for leg, seconds in zip(mine, spent, strict=True):
                if leg.pipe is not None:
                    queue[leg.pipe] = queue.get(leg.pipe, 0.0) + count * seconds / trip
        times = [
            [
                leg.alone
                if leg.pipe is None
                else max(leg.alone, leg.need * (1 + max(0.0, queue[leg.pipe] - seconds / trip)))
                for leg, seconds in zip(mine, spent, strict=True)
            ]
            for mine, spent, trip in zip(legs, times, trips, strict=True)
        ]
        fresh = [z + sum(spent) for z, spent in zip(think, times, strict=True)]
        if all(abs(new - old) <= 1e-9 * new for new, old in zip(fresh, trips, strict=True)):
            break
        trips = [(new + old) / 2 for new, old in zip(fresh, trips, strict=True)]
    return [trip / count for trip in trips]
