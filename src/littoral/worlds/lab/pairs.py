"""What a lab is measured by: pairs of hosts, chosen and grouped so that each pipe shows its own rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from littoral.worlds.lab.wiring import COORDINATOR, FRAME_BYTES, MTU, Wiring

GOODPUT = (MTU - 52) / (MTU + FRAME_BYTES)  # 0.956: what TCP with timestamps can deliver of a link's rate
PROBE_BYTES = 16
ALL_PAIRS_UP_TO = 12
_LONGEST_RING = 8
_ROUND_BYTES_PER_S = 2e8  # measured at once: more would measure this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two hosts, and the slowest pipe on the way."""

    source: str
    target: str
    slowest: str
    pipes: frozenset[str]  # there and back
    rate: float
    loss: float
    latency_s: float  # there and back, with the time a probe itself takes on slow pipes

    @property
    def where(self) -> str:
        """As tables name it."""
        return f"{self.source} -> {self.target}"

    @property
    def goodput(self) -> float:
        """Mbit/s that TCP can deliver."""
        return self.rate * GOODPUT * 8e-6


def pairs(wiring: Wiring) -> list[Pair]:
    """What to measure: all pairs of hosts if they are few, otherwise each pipe once where it is the slowest."""
    found = [pair for ends in wiring.paths if COORDINATOR not in ends and (pair := pair_of(wiring, *ends))]
    if len(found) <= ALL_PAIRS_UP_TO:
        return found
    return list({pair.slowest: pair for pair in reversed(found)}.values())[::-1]


def pair_of(wiring: Wiring, source: str, target: str) -> Pair | None:
    """What is asked of a pair; None where nothing limits it or nothing connects it."""
    path, back = wiring.paths.get((source, target)), wiring.paths.get((target, source))
    if path is None or back is None:
        return None
    rates = {name: wiring.pipes[name].capacity.at(0.0) for name in path.pipes}
    slowest = min(rates, key=rates.__getitem__, default="")
    if not slowest or not 0 < rates[slowest] < math.inf:
        return None
    size = PROBE_BYTES + 28 + FRAME_BYTES
    own = sum(size / wiring.pipes[name].capacity.at(0.0) for name in (*path.pipes, *back.pipes))
    return Pair(
        source=source,
        target=target,
        slowest=slowest,
        pipes=frozenset((*path.pipes, *back.pipes)),
        rate=rates[slowest],
        loss=path.loss,
        latency_s=path.latency_s + back.latency_s + own,
    )


def rounds(todo: list[Pair]) -> Iterator[list[Pair]]:
    """Pairs that share no pipe are measured at once."""
    left = list(todo)
    while left:
        chosen: list[Pair] = []
        used: set[str] = set()
        for pair in left:
            if not used & pair.pipes and (not chosen or sum(p.rate for p in chosen) + pair.rate <= _ROUND_BYTES_PER_S):
                chosen.append(pair)
                used |= pair.pipes
        left = [pair for pair in left if pair not in chosen]
        yield chosen


def ring_of(wiring: Wiring) -> list[Pair]:
    """Pairs that can all be busy at once without sharing a pipe: each device sends to the next."""
    names = wiring.continuum.device_names[:_LONGEST_RING]
    found = [pair_of(wiring, a, b) for a, b in zip(names, (*names[1:], names[0]), strict=True) if a != b]
    ring = [pair for pair in found if pair is not None and not pair.loss]
    pipes = [name for pair in ring for name in wiring.paths[pair.source, pair.target].pipes]
    return ring if len(set(pipes)) == len(pipes) else []
