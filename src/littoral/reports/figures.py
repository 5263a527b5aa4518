"""The figures of the page, for Plotly: learning curves, Gantt chart, use of the network.

Backgrounds are transparent and text has no colour of its own: the page's script fits both to light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from littoral.reports.palette import MARKS, SPAN_COLOURS, Look, looks, time_axis
from littoral.reports.spans import Span
from littoral.reports.story import Story
from littoral.reports.tables import Row
from littoral.reports.timeline import RUN_ROW, Timeline
from littoral.reports.usage import Use
from littoral.units import show_rate

Figure = dict[str, Any]  # data and layout, as Plotly's JSON has them
_LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"}


def _figure(data: list[dict[str, Any]], height: int, x_title: str, y: dict[str, Any], **layout: Any) -> Figure:
    axis = {"title": {"text": x_title}, "rangemode": "tozero", "zeroline": False, "automargin": True}
    common = {
        "height": height,
        "margin": {"l": 8, "r": 14, "t": 26, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": _LEGEND,
        "xaxis": axis | layout.pop("x", {}),
        "yaxis": {"automargin": True, "zeroline": False} | y,
    }
    return {"data": data, "layout": common | layout}


# -- learning curves --------------------------------------------------------------------------------------------


def accuracy_figure(stories: Sequence[Story], rows: Sequence[Row]) -> Figure | None:
    """Accuracy against time for every run, with the target and where it was reached; None without evaluations."""
    evaluated = [(s, r) for s, r in zip(stories, rows, strict=True) if s.evaluations]
    if not evaluated:
        return None
    factor, unit = time_axis(max(story.seconds for story, _ in evaluated))
    look = looks([row.variant for _, row in evaluated])
    data = [_curve(s, r, look, factor, unit, "accuracy", first) for s, r, first in _with_first(evaluated)]
    crossings = [
        (r.time_to_target_s / factor, _accuracy_at(s, r.time_to_target_s), r)
        for s, r in evaluated
        if r.time_to_target_s is not None
    ]
    if crossings:
        data.append(_crossings(crossings, unit))
    targets = sorted({s.result["target_accuracy"] for s, _ in evaluated if s.result.get("target_accuracy")})
    lines = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": t, "y1": t,
              "line": {"dash": "dash", "width": 1.5, "color": "#7f8c99"}} for t in targets]  # fmt: skip
    notes = [{"xref": "paper", "x": 0, "y": t, "text": f"target {t:.4g}", "showarrow": False, "xanchor": "left",
              "yanchor": "bottom"} for t in targets]  # fmt: skip
    axis = {"title": {"text": "accuracy (share of 1)"}}
    return _figure(data, 430, f"time ({unit})", axis, shapes=lines, annotations=notes)


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
    return _figure(data, 430, f"time ({unit})", axis)


def _with_first(pairs: list[tuple[Story, Row]]) -> list[tuple[Story, Row, bool]]:
    """Each pair, with whether it is the first of its variant."""
    seen: set[str] = set()
    return [(s, r, not (r.variant in seen or seen.add(r.variant))) for s, r in pairs]  # type: ignore[func-returns-value]


def _curve(
    story: Story, row: Row, look: dict[str, Look], factor: float, unit: str, field: str, first: bool
) -> dict[str, Any]:
    style = look[row.variant]
    marks = len(story.evaluations) <= 60
    return {
        "type": "scatter",
        "name": escape(row.variant),
        "legendgroup": escape(row.variant),
        "showlegend": first,
        "x": np.array([e.t / factor for e in story.evaluations]),
        "y": np.array([getattr(e, field) for e in story.evaluations]),
        "mode": "lines+markers" if marks else "lines",
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"symbol": style.symbol, "size": 6, "color": style.colour},
        "hovertemplate": f"{escape(row.label)}<br>%{{x:.4g}} {unit}: {field} %{{y:.4g}}<extra></extra>",
    }


def _crossings(found: list[tuple[float, float, Row]], unit: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": "target reached",
        "mode": "markers",
        "x": [x for x, _, _ in found],
        "y": [y for _, y, _ in found],
        "text": [escape(row.label) for _, _, row in found],
        "marker": {"symbol": "star", "size": 15, "color": "#f0c000", "line": {"width": 1.2, "color": "#333333"}},
        "hovertemplate": f"%{{text}}<br>target reached at %{{x:.4g}} {unit}<extra></extra>",
    }


def _accuracy_at(story: Story, t: float) -> float:
    return next((e.accuracy for e in reversed(story.evaluations) if e.t <= t), story.evaluations[-1].accuracy)


# -- Gantt chart ------------------------------------------------------------------------------------------------

# kind: (offset from the middle of the row, share of the row's height); the lane tells kinds apart, not only the colour
_LANES = {"wait": (0.08, 0.08), "compute": (0.08, 0.5), "fetch": (0.08, 0.3), "send": (-0.32, 0.16)}
_NAMES = {"compute": "computing", "fetch": "fetching data", "send": "sending", "wait": "waiting", "lost": "lost"}


def gantt_figure(timeline: Timeline) -> Figure:
    """A row per node: computing and waiting in the middle, sending below, lost times hatched, marks on top."""
    factor, unit = time_axis(timeline.seconds)
    rows = {row: len(timeline.rows) - 1 - i for i, row in enumerate(timeline.rows)}
    pixels = 30 if len(rows) <= 16 else 20 if len(rows) <= 32 else 14
    lanes = [
        _lane(kind, timeline.lanes[kind], rows, pixels, factor, unit) for kind in _LANES if timeline.lanes[kind]
    ]
    lost = [_hatched(timeline.lanes["lost"], rows, factor)] if timeline.lanes["lost"] else []
    marks = [_marks(kind, timeline, rows, factor, unit) for kind in MARKS if kind in timeline.marks]
    axis = {
        "tickvals": list(rows.values()),
        "ticktext": [escape(_clip(row)) for row in rows],
        "range": [-0.6, len(rows) - 0.4],
        "showgrid": False,
        "fixedrange": True,
    }
    height = pixels * len(rows) + 130
    legend = _LEGEND | {"y": -60 / (pixels * len(rows) + 30)}
    x = {"range": [-0.005 * timeline.seconds / factor, 1.01 * timeline.seconds / factor]}
    return _figure(lanes + lost + marks, height, f"time ({unit})", axis, legend=legend, x=x)


def _lane(
    kind: str, spans: dict[str, list[Span]], rows: dict[str, int], pixels: int, factor: float, unit: str
) -> dict[str, Any]:
    """All spans of a kind as one broken line: one element to draw however many there are."""
    offset, share = _LANES[kind]
    starts_stops = np.array([span for lane in spans.values() for span in lane], dtype=float)
    heights = np.repeat([rows[row] + offset for row in spans], [len(lane) for lane in spans.values()])
    gap = np.full(len(heights), np.nan)
    x = np.column_stack([starts_stops / factor, gap]).ravel()
    y = np.column_stack([heights, heights, gap]).ravel().astype(np.float32)
    seconds = np.repeat((starts_stops[:, 1] - starts_stops[:, 0]) / factor, 3).astype(np.float32)
    return {
        "type": "scatter",
        "name": _NAMES[kind],
        "mode": "lines",
        "x": x,
        "y": y,
        "customdata": seconds,
        "line": {"color": SPAN_COLOURS[kind], "width": max(1.0, round(share * pixels, 1))},
        "hovertemplate": f"{_NAMES[kind]} for %{{customdata:.4g}} {unit}<br>at %{{x:.5g}} {unit}<extra></extra>",
    }


def _hatched(spans: dict[str, list[Span]], rows: dict[str, int], factor: float) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for row, lane in spans.items():
        for start, stop in lane:
            x += [start / factor, stop / factor, stop / factor, start / factor, start / factor, None]
            y += [rows[row] - 0.4, rows[row] - 0.4, rows[row] + 0.4, rows[row] + 0.4, rows[row] - 0.4, None]
    return {
        "type": "scatter",
        "name": _NAMES["lost"],
        "mode": "lines",
        "x": x,
        "y": y,
        "fill": "toself",
        "fillcolor": "rgba(217,98,43,0.12)",
        "fillpattern": {"shape": "/", "fgcolor": SPAN_COLOURS["lost"], "bgcolor": "rgba(217,98,43,0.12)", "size": 7},
        "line": {"color": SPAN_COLOURS["lost"], "width": 1},
        "hoverinfo": "skip",
    }


def _marks(kind: str, timeline: Timeline, rows: dict[str, int], factor: float, unit: str) -> dict[str, Any]:
    name, symbol, _, colour = MARKS[kind]
    found = timeline.marks[kind]
    shift = 0.22 if kind == "evaluation" else -0.22 if kind == "epoch" else 0.0
    return {
        "type": "scatter",
        "name": name,
        "mode": "markers",
        "x": [mark.t / factor for mark in found],
        "y": [rows[mark.node] + (shift if mark.node == RUN_ROW else 0.0) for mark in found],
        "text": [escape(mark.text) for mark in found],
        "marker": {"symbol": symbol, "size": 7 if kind in ("epoch", "evaluation") else 11, "color": colour,
                   "line": {"width": 1.5 if kind in ("epoch", "evaluation") else 1, "color": colour}},
        "hovertemplate": f"%{{text}}<br>at %{{x:.5g}} {unit}<extra></extra>",
    }  # fmt: skip


def _clip(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


# -- use of the network -----------------------------------------------------------------------------------------


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
    return _figure(data, 52 * len(uses) + 70, f"time ({unit})", axis, showlegend=False, x=x)


def _caption(use: Use) -> str:
    rate = show_rate(use.rate_bytes_per_s)
    return f"{escape(_clip(use.label, 30))}<br>{rate}, mean {use.mean:.0%}, peak {use.peak:.0%}"


def _strip(use: Use, floor: int, factor: float, unit: str) -> list[dict[str, Any]]:
    middle = np.array([(a + b) / 2 / factor for a, b in zip(use.edges, use.edges[1:], strict=False)])
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
        "hovertemplate": f"{escape(use.label)}<br>%{{customdata:.1f}} % in use around %{{x:.5g}} {unit}<extra></extra>",
    }
    # 'tonexty' fills down to the trace before, which must have the same ends to give an upright strip.
    ground["x"] = [float(middle[0]), float(middle[-1])]
    return [ground, strip]


