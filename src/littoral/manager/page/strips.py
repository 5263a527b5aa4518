"""A run as strips over time: a row per node, the darker the busier; and bars where deadlines were missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from littoral.manager.page.course import Bins
from littoral.manager.page.plots import BOTTOM, RIGHT, WIDTH, Axis, anchor, ticks

LEFT, ROW, THICK, MOST = 100, 20, 13, 24
_LEVELS = 4


def gantt(label: str, x: Axis, busy: Bins, devices: Mapping[str, str]) -> str:
    """Who was busy when."""
    rows = sorted(busy.amounts)[:MOST]
    parts = [
        _name(devices.get(node, node), node, 4 + ROW * i) + _strip(busy, node, x, 4 + ROW * i)
        for i, node in enumerate(rows)
    ]
    more = len(busy.amounts) - len(rows)
    note = f'<p class="note">and {more} more nodes</p>' if more > 0 else ""
    return _figure(label, x, 4 + ROW * len(rows), "".join(parts)) + note


def misses(label: str, x: Axis, missed: Bins, apps: Sequence[str]) -> str:
    """How many deadlines of each app were missed when."""
    rows = sorted({*missed.amounts, *apps})[:MOST]
    most = max((max(row) for row in missed.amounts.values()), default=0.0) or 1.0
    parts = []
    for i, app in enumerate(rows):
        top = 4 + ROW * i
        bars = [
            _box(x, index, missed.width, top + THICK * (1 - count / most), THICK * count / most)
            for index, count in enumerate(missed.amounts.get(app, ()))
            if count > 0
        ]
        parts.append(_name(app, app, top) + _ground(top) + f'<path class="miss" d="{"".join(bars)}"/>')
    return _figure(label, x, 4 + ROW * len(rows), "".join(parts))


def _figure(label: str, x: Axis, height: float, body: str) -> str:
    marks = "".join(
        f'<path class="grid" d="M{_at(x, t):.1f} 0V{height:.0f}"/>'
        f'<text class="tick" x="{_at(x, t):.1f}" y="{height + 13:.0f}" text-anchor="{anchor(x.share(t))}">'
        f"{escape(x.show(t))}</text>"
        for t in ticks(x.low, x.high)
    )
    title = f'<text class="tick" x="{WIDTH - RIGHT}" y="{height + BOTTOM - 4:.0f}" text-anchor="end">{x.title}</text>'
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height + BOTTOM:.0f}" role="img" aria-label="{escape(label)}">'
        f"{marks}{title}{body}</svg>"
    )


def _name(text: str, title: str, top: float) -> str:
    short = text if len(text) <= 13 else text[:12] + "…"
    return (
        f'<text class="tick" x="{LEFT - 6}" y="{top + THICK - 3:.0f}" text-anchor="end">{escape(short)}'
        f"<title>{escape(title)}</title></text>"
    )


def _ground(top: float) -> str:
    return f'<rect class="ground" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{THICK}"/>'


def _strip(busy: Bins, node: str, x: Axis, top: float) -> str:
    """One path for each level of load."""
    paths: list[list[str]] = [[] for _ in range(_LEVELS)]
    for index, seconds in enumerate(busy.amounts[node]):
        share = min(1.0, seconds / busy.width)
        if share > 0.02:
            paths[min(_LEVELS - 1, int(share * _LEVELS))].append(_box(x, index, busy.width, top, THICK))
    return _ground(top) + "".join(
        f'<path class="busy b{level}" d="{"".join(boxes)}"/>' for level, boxes in enumerate(paths) if boxes
    )


def _box(x: Axis, index: int, width: float, top: float, height: float) -> str:
    left, right = _at(x, index * width), _at(x, (index + 1) * width)
    return f"M{left:.1f} {top:.1f}H{right:.1f}v{height:.1f}H{left:.1f}z"


def _at(x: Axis, t: float) -> float:
    return LEFT + min(1.0, max(0.0, x.share(t))) * (WIDTH - LEFT - RIGHT)
