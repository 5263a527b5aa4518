"""Plots as inline SVG, made here: lines over time, with axes that have round numbers. Colours are the style sheet's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from littoral.reports.palette import time_axis

WIDTH, HEIGHT = 440, 200
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 18, 32
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points joined; ``look`` is its colour and dash, ``stairs`` that values hold until the next."""

    name: str
    points: Sequence[Point]
    look: int = 0
    stairs: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From ``low`` to ``high``; ``show`` writes a value."""

    low: float
    high: float
    show: Callable[[float], str]
    title: str = ""

    def share(self, value: float) -> float:
        """Where a value lies, between 0 and 1."""
        return (value - self.low) / ((self.high - self.low) or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A level that matters."""

    y: float
    name: str


def plot(
    label: str, x: Axis, y: Axis, lines: Sequence[Line] = (), rules: Sequence[Rule] = (),
    marks: Sequence[Point] = (), more: str = "",
) -> str:  # fmt: skip
    """A figure; ``label`` says in words what it shows, ``marks`` are points to see, ``more`` is SVG on top."""
    parts = [_grid(x, y)]
    parts += [_rule(rule, y) for rule in rules]
    parts += [_line(line, x, y) for line in lines if line.points]
    parts += [_mark(point, x, y) for point in marks]
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}{more}</svg>"
    )


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Which line is which."""
    entries = "".join(f'<li class="l{look % 8}">{escape(name)}</li>' for name, look in names)
    return f'<ul class="legend">{entries}</ul>'


def time_span(seconds: float) -> Axis:
    """An axis from 0 on, in the unit that fits."""
    factor, unit = time_axis(seconds)
    return Axis(low=0.0, high=max(seconds, 1e-3), show=lambda value: f"{value / factor:.4g}", title=f"time ({unit})")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values between two.

    >>> ticks(0, 1), ticks(0, 90)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 20.0, 40.0, 60.0, 80.0])
    """
    span = (high - low) or 1.0
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _grid(x: Axis, y: Axis) -> str:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<path class="grid" d="M{LEFT} {up(y, v):.1f}H{right}"/>'
        f'<text class="tick" x="{LEFT - 5}" y="{up(y, v) + 3.5:.1f}" text-anchor="end">{escape(y.show(v))}</text>'
        for v in ticks(y.low, y.high)
    ]
    parts += [
        f'<text class="tick" x="{across(x, v):.1f}" y="{floor + 15}" text-anchor="{anchor(x.share(v))}">'
        f"{escape(x.show(v))}</text>"
        for v in ticks(x.low, x.high)
    ]
    title = f'<text class="tick" x="{right}" y="{HEIGHT - 3}" text-anchor="end">{escape(x.title)}</text>'
    return "".join(parts) + title


def anchor(share: float) -> str:
    """Of a text below an axis, which stays within the figure at its end, too."""
    return "end" if share > 0.97 else "middle"


def _line(line: Line, x: Axis, y: Axis) -> str:
    found = [(across(x, a), up(y, b)) for a, b in line.points]
    steps = (f"H{a:.1f}V{b:.1f}" if line.stairs else f"L{a:.1f} {b:.1f}" for a, b in found[1:])
    path = f"M{found[0][0]:.1f} {found[0][1]:.1f}{''.join(steps)}"
    dots = (
        "".join(f'<circle class="l{line.look % 8}" cx="{a:.1f}" cy="{b:.1f}" r="2.4"/>' for a, b in found)
        if (line.dots and len(found) <= 80) or len(found) == 1
        else ""
    )
    return f'<path class="line l{line.look % 8}" d="{path}"><title>{escape(line.name)}</title></path>{dots}'


def _rule(rule: Rule, y: Axis) -> str:
    """Its name stands above it where curves begin, which is seldom that high."""
    at = up(y, rule.y)
    return (
        f'<path class="rule" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
        f'<text class="tick" x="{LEFT + 6}" y="{at - 4:.1f}">{escape(rule.name)}</text>'
    )


def _mark(point: Point, x: Axis, y: Axis) -> str:
    return f'<path class="mark" d="M{across(x, point[0]):.1f} {up(y, point[1]):.1f}l5 -9h-10z"/>'


def across(x: Axis, value: float) -> float:
    """Where a value of the horizontal axis is, in the figure's units."""
    return LEFT + min(1.0, max(0.0, x.share(value))) * (WIDTH - LEFT - RIGHT)


def up(y: Axis, value: float) -> float:
    """Where a value of the vertical axis is, in the figure's units."""
    return HEIGHT - BOTTOM - min(1.0, max(0.0, y.share(value))) * (HEIGHT - TOP - BOTTOM)
