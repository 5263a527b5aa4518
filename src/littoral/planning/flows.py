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


def queued_cycles(think: Sequence[float], legs: Sequence[Sequence[Leg]], rounds: int = 300) -> list[float]:
    """Cycle times of workers that think and then transfer over pipes they share.

    Schweitzer's approximate mean-value analysis: a transfer finds on average the others' queue at its pipe, which is
    the share of their cycles that they spend there; iterated until it stands.
    """
    cycles = [z + sum(leg.alone for leg in mine) for z, mine in zip(think, legs, strict=True)]
    times = [[leg.alone for leg in mine] for mine in legs]
    for _ in range(rounds):
        queue: dict[Pipe, float] = {}
        for mine, spent, cycle in zip(legs, times, cycles, strict=True):
            for leg, seconds in zip(mine, spent, strict=True):
                if leg.pipe is not None:
                    queue[leg.pipe] = queue.get(leg.pipe, 0.0) + seconds / cycle
        times = [
            [
                leg.alone
                if leg.pipe is None
                else max(leg.alone, leg.need * (1 + max(0.0, queue[leg.pipe] - seconds / cycle)))
                for leg, seconds in zip(mine, spent, strict=True)
            ]
            for mine, spent, cycle in zip(legs, times, cycles, strict=True)
        ]
        fresh = [z + sum(spent) for z, spent in zip(think, times, strict=True)]
        if all(abs(new - old) <= 1e-9 * new for new, old in zip(fresh, cycles, strict=True)):
            break
        cycles = [(new + old) / 2 for new, old in zip(fresh, cycles, strict=True)]
    return cycles


def pipelined_cycles(
    think: Sequence[float], legs: Sequence[Sequence[Leg]], cycles: Sequence[float], ahead: int
) -> list[float]:
    """Cycle times when a worker thinks on while ``ahead`` exchanges are under way; ``cycles`` are those without.

    Nobody is faster than its own thinking, its slowest transfer, or all its exchanges under way at once; and no pipe
    carries more than it can.
    """
    found = [
        max([z, cycle / (1 + ahead), *(leg.alone for leg in mine)])
        for z, mine, cycle in zip(think, legs, cycles, strict=True)
    ]
    for _ in range(20):
        busy: dict[Pipe, float] = {}
        for mine, cycle in zip(legs, found, strict=True):
            for leg in mine:
                if leg.pipe is not None:
                    busy[leg.pipe] = busy.get(leg.pipe, 0.0) + leg.need / cycle
        if max(busy.values(), default=0.0) <= 1.001:
            break
        found = [
            cycle * max([1.0, *(busy[leg.pipe] for leg in mine if leg.pipe is not None)])
            for mine, cycle in zip(legs, found, strict=True)
        ]
    return found
