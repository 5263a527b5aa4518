"""Spans of time, as sorted lists of (start, stop): their union, their gaps, and fewer of them for drawing."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def union(spans: Iterable[Span], pause: float = 0.0) -> list[Span]:
    """The spans without overlaps; neighbours at most ``pause`` seconds apart become one.

    >>> union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    [(0.0, 3.0), (5.0, 6.0)]
    """
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1] + pause:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def subtract(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What of ``spans`` no other span covers.

    >>> subtract([(0.0, 10.0)], [(2.0, 3.0), (9.0, 12.0)])
    [(0.0, 2.0), (3.0, 9.0)]
    """
    left: list[Span] = []
    covers, first = union(others), 0
    for start, stop in union(spans):
        while first < len(covers) and covers[first][1] <= start:
            first += 1
        at, index = start, first
        while index < len(covers) and covers[index][0] < stop:
            if covers[index][0] > at:
                left.append((at, covers[index][0]))
            at = max(at, covers[index][1])
            index += 1
        if at < stop:
            left.append((at, stop))
    return left


def total(spans: Iterable[Span]) -> float:
    """Seconds in all."""
    return sum(stop - start for start, stop in spans)


def thinned(lanes: list[list[Span]], limit: int, seconds: float) -> tuple[list[list[Span]], float]:
    """Lanes with at most ``limit`` spans in all where possible, and the longest pause that was closed for it.

    Pauses are closed from the shortest up, so what can be told apart on a screen stays apart longest; every
    lane keeps at least one span.
    """
    lanes = [union(lane) for lane in lanes]
    pause = 0.0
    while sum(map(len, lanes)) > max(limit, sum(1 for lane in lanes if lane)):
        pause = 2.0 * pause if pause else seconds / 8192
        lanes = [union(lane, pause) for lane in lanes]
    return lanes, pause
