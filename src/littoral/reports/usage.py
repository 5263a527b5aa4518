"""How much of every network pipe was in use, over time.

    share(pipe, bin) = bytes that passed it in the bin / integral of its capacity over the bin

A message's bytes are spread evenly over its time on the wire: between one pair of nodes messages go one after
the other, so it begins when the one before has left, and ends a latency before it arrives. Capacity is as
described: a fault that cuts a link shows as an idle link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
    for route, times in _on_the_wire(story):
        passed = _passed(times, edges)
        for pipe in route.pipes:
            if not math.isinf(pipe.capacity.mean()):
                pipes[pipe.name] = pipe
                carried[pipe.name] = carried.get(pipe.name, 0.0) + passed
    uses = sorted((_use(pipe, carried[name], edges) for name, pipe in pipes.items()), key=lambda u: (-u.mean, u.pipe))
    busy = [use for use in uses if use.peak > QUIET] or uses[:3]
    return busy[:limit], len(uses) - len(busy[:limit])


def _on_the_wire(story: Story) -> Iterator[tuple[Route, np.ndarray]]:
    """For every pair of nodes its route, and rows of (bytes, when they begin to pass, when they cease)."""
    routes, device_of = Routes(story.continuum), story.plan.device_of
    pairs: dict[tuple[str, str], list[Transfer]] = {}
    for transfer in story.transfers:
        pairs.setdefault((transfer.source, transfer.target), []).append(transfer)
    for (source, target), transfers in pairs.items():
        start_device = source if transfers[0].fetched else device_of[source]
        route = routes.between(start_device, device_of[target])
        free, rows = 0.0, []
        for each in sorted(transfers, key=lambda transfer: (transfer.stop, transfer.start)):
            stop = max(each.start, each.stop - route.latency_s)
            rows.append((each.size, min(stop, max(each.start, free)), stop))
            free = stop
        yield route, np.array(rows)


def _passed(times: np.ndarray, edges: np.ndarray, chunk: int = 4096) -> np.ndarray:
    """Bytes in each bin: the growth from edge to edge of what has passed by then."""
    by_then = np.zeros(len(edges))
    for first in range(0, len(times), chunk):
        size, start, stop = times[first : first + chunk].T
        lasting = np.maximum(stop - start, 1e-9)  # what passes in no time still passes
        share = (edges[:, None] - (stop - lasting)) / lasting
        by_then += np.clip(share, 0.0, 1.0) @ size
    return np.diff(by_then)


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
