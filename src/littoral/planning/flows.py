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
    users: dict[Pipe, list[tuple[int, float]]] = {}
    for i, mine in enumerate(legs):
        for leg in mine:
            if leg.pipe is not None:
                users.setdefault(leg.pipe, []).append((i, leg.need))
    for passing in users.values():
        least = _fair_cycle([need for _, need in passing], [found[i] for i, _ in passing])
        for i, _ in passing:
            found[i] = max(found[i], least)
    return found


def _fair_cycle(needs: Sequence[float], cycles: Sequence[float]) -> float:
    """The cycle at which those who ask for more than a fair share of a pipe pass it, so that it carries all.

    >>> _fair_cycle([1.0, 1.0, 1.0], [10.0, 1.0, 1.0])  # one asks for a tenth: the others share the rest
    2.2222222222222223
    """
    order = sorted(range(len(needs)), key=lambda i: cycles[i])
    left = 1.0 - sum(need / cycle for need, cycle in zip(needs, cycles, strict=True))
    if left >= 0:
        return 0.0
    eager = 0.0
    for position, i in enumerate(order):
        left += needs[i] / cycles[i]
        eager += needs[i]
        following = cycles[order[position + 1]] if position + 1 < len(order) else float("inf")
        if left > 0 and eager / left <= following:
            return eager / left
    return 0.0
