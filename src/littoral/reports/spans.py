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


def sliced(spans: Iterable[Span], width: float, *, late: bool = False) -> list[Span]:
    """One span for each slice of ``width`` seconds, as long as the spans are within it.

    It stands at the slice's beginning, or ``late`` at its end: lengths stay true, places only to a slice.

    >>> sliced([(0.0, 1.0), (2.0, 3.0), (9.0, 11.0)], 10.0)
    [(0.0, 3.0), (10.0, 11.0)]
    """
    within: dict[int, float] = {}
    for start, stop in union(spans):
        for index in range(int(start / width), int(stop / width) + 1):
            length = min(stop, (index + 1) * width) - max(start, index * width)
            if length > 0:
                within[index] = within.get(index, 0.0) + length
    if late:
        return [((index + 1) * width - length, (index + 1) * width) for index, length in sorted(within.items())]
    return [(index * width, index * width + length) for index, length in sorted(within.items())]
