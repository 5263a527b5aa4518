"""How much of every network pipe was in use, over time.

    share(pipe, bin) = bytes that passed it in the bin / integral of its capacity over the bin

A message's bytes are spread evenly over its time on the wire: between one pair of nodes messages go one after
the other, so it begins when the one before has left, and ends a latency before it arrives. Capacity is as
described: a fault that cuts a link shows as an idle link.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from littoral.continuum.routes import Pipe, Route, Routes
from littoral.continuum.signal import Signal
from littoral.reports.reader import Transfer
from littoral.reports.story import Story

BINS = 160
QUIET = 0.02  # a pipe that never had more than this share in use says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One pipe's use: ``shares[i]`` is for the time between ``edges[i]`` and ``edges[i + 1]``."""

    pipe: str
    label: str
    rate_bytes_per_s: float
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    mean: float

    @property
    def peak(self) -> float:
        """The largest share of any bin."""
        return max(self.shares)

    def in_words(self) -> str:
        """For captions."""
        return f"mean {100 * self.mean:.0f} %, peak {100 * self.peak:.0f} %"


def pipe_uses(story: Story, bins: int = BINS, limit: int = 12) -> tuple[list[Use], int]:
    """The busiest pipes of a run, busiest first, and how many others carried something.

    Pipes without a limit to their capacity are left out, as are quiet ones unless all are.
    """
    if not story.transfers or story.seconds <= 0:
        return [], 0
    edges = np.linspace(0.0, story.seconds, bins + 1)
    carried: dict[str, np.ndarray] = {}
    pipes: dict[str, Pipe] = {}
    for route, size, start, stop in _on_the_wire(story):
        for pipe in route.pipes:
            if not math.isinf(pipe.capacity.mean()):
                pipes[pipe.name] = pipe
                _spread(carried.setdefault(pipe.name, np.zeros(bins)), edges, size, start, stop)
    uses = sorted(
        (_use(pipe, carried[name], edges) for name, pipe in pipes.items()), key=lambda u: (-u.mean, u.pipe)
    )
    busy = [use for use in uses if use.peak > QUIET] or uses[:3]
    return busy[:limit], len(uses) - len(busy[:limit])


def _on_the_wire(story: Story) -> Iterator[tuple[Route, int, float, float]]:
    """Every transfer with its route and the times at which its bytes begin and cease to pass."""
    routes, device_of = Routes(story.continuum), story.plan.device_of
    free: dict[tuple[str, str], float] = {}
    for transfer in _in_order(story.transfers):
        source = transfer.source if transfer.fetched else device_of[transfer.source]
        route = routes.between(source, device_of[transfer.target])
        pair = (transfer.source, transfer.target)
        stop = max(transfer.start, transfer.stop - route.latency_s)
        start = min(stop, max(transfer.start, free.get(pair, 0.0)))
        free[pair] = stop
        yield route, transfer.size, start, stop


def _in_order(transfers: Iterable[Transfer]) -> list[Transfer]:
    return sorted(transfers, key=lambda transfer: (transfer.stop, transfer.start))


def _spread(into: np.ndarray, edges: np.ndarray, size: float, start: float, stop: float) -> None:
    width, last = edges[1] - edges[0], len(into) - 1
    first, final = min(last, int(start / width)), min(last, int(stop / width))
    if first == final or stop <= start:
        into[final] += size
        return
    rate = size / (stop - start)
    into[first] += rate * (edges[first + 1] - start)
    into[first + 1 : final] += rate * width
    into[final] += rate * (stop - edges[final])


def _use(pipe: Pipe, carried: np.ndarray, edges: np.ndarray) -> Use:
    capacity = np.array([_integral(pipe.capacity, a, b) for a, b in pairwise(edges)])
    shares = np.divide(carried, capacity, out=np.zeros_like(carried), where=capacity > 0)
    whole = float(capacity.sum())
    return Use(
        pipe=pipe.name,
        label=_label(pipe.name),
        rate_bytes_per_s=whole / float(edges[-1]),
        edges=tuple(map(float, edges)),
        # A message's even spread can put more into a bin than its true course did.
        shares=tuple(float(share) for share in np.minimum(shares, 1.0)),
        mean=min(1.0, float(carried.sum()) / whole) if whole else 0.0,
    )


def _integral(signal: Signal, start: float, stop: float) -> float:
    area, at = 0.0, start
    while at < stop:
        following = min(stop, signal.next_change(at))
        area += signal.at(at) * (following - at)
        at = following
    return area


def _label(pipe: str) -> str:
    if pipe.endswith("~"):
        return f"{pipe[:-1]} (shared medium)"
    for ending, words in ((".up", " sends"), (".down", " receives")):
        if pipe.endswith(ending):
            return pipe.removesuffix(ending) + words
    return pipe.replace("->", " → ").replace("--", " ↔ ")
