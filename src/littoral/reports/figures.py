"""Figures of the page, for Plotly: learning curves, use of the network.

Backgrounds are transparent and text has no colour of its own: the page's script fits both to light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from littoral.reports.palette import Look, looks, time_axis
from littoral.reports.story import Story
from littoral.reports.tables import Row
from littoral.reports.usage import Use
from littoral.units import show_rate

Figure = dict[str, Any]  # data and layout, as Plotly's JSON has them
LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "top"}  # how far below depends on the height
_BELOW = 56  # pixels from a plot to its legend: the axis has numbers and a title
_ROW, _IN_ROW = 22, 4  # pixels of a legend's row, and the names in it where the plot is half a page wide


def figure(data: list[dict[str, Any]], height: int, x_title: str, y: dict[str, Any], **layout: Any) -> Figure:
    axis = {"title": {"text": x_title}, "rangemode": "tozero", "zeroline": False, "automargin": True}
    names = sum("name" in trace and trace.get("showlegend", True) for trace in data)
    common = {
        "height": height + _ROW * max(0, -(-names // _IN_ROW) - 1),  # or a long legend would squeeze the plot
        "margin": {"l": 8, "r": 14, "t": 26, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": LEGEND | {"y": -_BELOW / max(height - 2 * _BELOW, _BELOW)},
        "xaxis": axis | layout.pop("x", {}),
        "yaxis": {"automargin": True, "zeroline": False} | y,
    }
    return {"data": data, "layout": common | layout}


# -- learning curves -------------------------------------------------------------------------------------


def accuracy_figure(stories: Sequence[Story], rows: Sequence[Row]) -> Figure | None:
    """Accuracy against time for every run, the target and where it was reached; None without evaluations."""
    evaluated = [(s, r) for s, r in zip(stories, rows, strict=True) if s.evaluations]
    if not evaluated:
        return None
    factor, unit = time_axis(max(story.seconds for story, _ in evaluated))
    look = looks([row.variant for _, row in evaluated])
    data = [_curve(s, r, look, factor, unit, "accuracy", first) for s, r, first in _with_first(evaluated)]
    crossings = [
        (r.time_to_target_s / factor, 100 * _accuracy_at(s, r.time_to_target_s), r)
        for s, r in evaluated
        if r.time_to_target_s is not None
    ]
    if crossings:
        data.append(_crossings(crossings, unit))
    targets = sorted({s.result["target_accuracy"] for s, _ in evaluated if s.result.get("target_accuracy")})
    lines = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 100 * t, "y1": 100 * t,
              "line": {"dash": "dash", "width": 1.5, "color": "#7f8c99"}} for t in targets]  # fmt: skip
    notes = [{"xref": "paper", "x": 0, "y": 100 * t, "text": f"target {100 * t:.4g} %", "showarrow": False,
              "xanchor": "left", "yanchor": "bottom"} for t in targets]  # fmt: skip
    axis = {"title": {"text": "accuracy (%)"}}
    return figure(data, 430, f"time ({unit})", axis, shapes=lines, annotations=notes)


def loss_figure(stories: Sequence[Story], rows: Sequence[Row]) -> Figure | None:
    """Loss on unseen data against time for every run; None without evaluations."""
    evaluated = [(s, r) for s, r in zip(stories, rows, strict=True) if s.evaluations]
    if not evaluated:
        return None
    factor, unit = time_axis(max(story.seconds for story, _ in evaluated))
    look = looks([row.variant for _, row in evaluated])
    data = [_curve(s, r, look, factor, unit, "loss", first) for s, r, first in _with_first(evaluated)]
    losses = [evaluation.loss for story, _ in evaluated for evaluation in story.evaluations]
    wide = min(losses) > 0 and max(losses) > 20 * min(losses)
    axis = {"title": {"text": "loss"}, "type": "log" if wide else "linear"}
    return figure(data, 430, f"time ({unit})", axis)


def _with_first(pairs: list[tuple[Story, Row]]) -> list[tuple[Story, Row, bool]]:
    """Each pair, with whether it is the first of its variant."""
    seen: set[str] = set()
    return [(s, r, not (r.variant in seen or seen.add(r.variant))) for s, r in pairs]  # type: ignore[func-returns-value]


def _curve(
    story: Story, row: Row, look: dict[str, Look], factor: float, unit: str, field: str, first: bool
) -> dict[str, Any]:
    style = look[row.variant]
    marks = len(story.evaluations) <= 60
    scale, sign = (100, " %") if field == "accuracy" else (1, "")
    return {
        "type": "scatter",
        "name": escape(row.variant),
        "legendgroup": escape(row.variant),
        "showlegend": first,
        "x": np.array([e.t / factor for e in story.evaluations]),
        "y": np.array([scale * getattr(e, field) for e in story.evaluations]),
        "mode": "lines+markers" if marks else "lines",
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"symbol": style.symbol, "size": 6, "color": style.colour},
        "hovertemplate": f"{escape(row.label)}<br>%{{x:.4g}} {unit}: {field} %{{y:.4g}}{sign}<extra></extra>",
    }


def _crossings(found: list[tuple[float, float, Row]], unit: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": "target reached",
        "mode": "markers",
        "x": [x for x, _, _ in found],
        "y": [y for _, y, _ in found],
        "text": [escape(row.label) for _, _, row in found],
        "marker": {
            "symbol": "star",
            "size": 15,
            "color": "#f0c000",
            "line": {"width": 1.2, "color": "#333333"},
        },
        "hovertemplate": f"%{{text}}<br>target reached at %{{x:.4g}} {unit}<extra></extra>",
    }


def _accuracy_at(story: Story, t: float) -> float:
    return next((e.accuracy for e in reversed(story.evaluations) if e.t <= t), story.evaluations[-1].accuracy)


# -- use of the network ----------------------------------------------------------------------------------


def usage_figure(uses: Sequence[Use]) -> Figure:
    """A strip per pipe, as high as its share in use; busiest on top."""
    seconds = uses[0].edges[-1]
    factor, unit = time_axis(seconds)
    data = []
    for row, use in enumerate(uses):
        floor = len(uses) - 1 - row
        data += _strip(use, floor, factor, unit)
    axis = {
        "tickvals": [len(uses) - 1 - row + 0.4 for row in range(len(uses))],
        "ticktext": [_caption(use) for use in uses],
        "range": [-0.1, len(uses)],
        "showgrid": False,
        "fixedrange": True,
    }
    x = {"range": [0, seconds / factor]}
    short = {"short": [escape(clip(use.label)) for use in uses]}  # for narrow screens
    return figure(data, 52 * len(uses) + 70, f"time ({unit})", axis, showlegend=False, x=x, meta=short)


def _caption(use: Use) -> str:
    rate = show_rate(use.rate_bytes_per_s)
    return f"{escape(clip(use.label, 30))}<br>{rate}, {use.in_words()}"


def _strip(use: Use, floor: int, factor: float, unit: str) -> list[dict[str, Any]]:
    middle = np.array([(a + b) / 2 / factor for a, b in pairwise(use.edges)])
    shares = np.array(use.shares)
    line = {"color": "#2a7fc9", "width": 1.2, "shape": "hvh"}
    ground = {"type": "scatter", "x": [0, use.edges[-1] / factor], "y": [floor, floor], "mode": "lines",
              "line": {"color": "#9aa5b1", "width": 0.8}, "hoverinfo": "skip"}  # fmt: skip
    strip = {
        "type": "scatter",
        "mode": "lines",
        "x": middle,
        "y": floor + 0.82 * shares,
        "customdata": 100 * shares,
        "line": line,
        "fill": "tonexty",
        "fillcolor": "rgba(42,127,201,0.35)",
        "hovertemplate": f"{escape(use.label)}: %{{customdata:.1f}} % at %{{x:.5g}} {unit}<extra></extra>",
    }
    # 'tonexty' fills down to the trace before, which must have the same ends to give an upright strip.
    ground["x"] = [float(middle[0]), float(middle[-1])]
    return [ground, strip]


def clip(name: str, most: int = 22) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= most else name[: most - 1] + "…"
