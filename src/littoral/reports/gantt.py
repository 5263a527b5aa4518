"""The Gantt chart for Plotly: one broken line per kind of span, so that many draw as fast as few."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from littoral.reports.figures import LEGEND, Figure, clip, figure
from littoral.reports.palette import MARKS, SPAN_COLOURS, time_axis
from littoral.reports.spans import Span
from littoral.reports.timeline import RUN_ROW, Timeline

# kind: (offset from the middle of the row, share of its height); lanes tell kinds apart, not only colours
_LANES = {"wait": (0.0, 0.08), "compute": (0.0, 0.5), "fetch": (0.36, 0.16), "send": (-0.36, 0.16)}
_NAMES = {
    "compute": "computing",
    "fetch": "fetching data",
    "send": "sending",
    "wait": "waiting",
    "lost": "lost",
}


def gantt_figure(timeline: Timeline) -> Figure:
    """A row per node: fetching above, computing and waiting in the middle, sending below, losses hatched."""
    factor, unit = time_axis(timeline.seconds)
    rows = {row: len(timeline.rows) - 1 - i for i, row in enumerate(timeline.rows)}
    pixels = 30 if len(rows) <= 16 else 20 if len(rows) <= 32 else 14
    lanes = [_lane(kind, timeline.lanes[kind], rows, pixels, factor, unit) for kind in _LANES if timeline.lanes[kind]]
    lost = [_hatched(timeline.lanes["lost"], rows, factor)] if timeline.lanes["lost"] else []
    marks = [_marks(kind, timeline, rows, factor, unit) for kind in MARKS if kind in timeline.marks]
    axis = {
        "tickvals": list(rows.values()),
        "ticktext": [escape(clip(row)) for row in rows],
        "range": [-0.6, len(rows) - 0.4],
        "showgrid": False,
        "fixedrange": True,
    }
    height = pixels * len(rows) + 130
    legend = LEGEND | {"y": -60 / (pixels * len(rows) + 30)}
    x = {"range": [-0.005 * timeline.seconds / factor, 1.01 * timeline.seconds / factor]}
    return figure(lanes + lost + marks, height, f"time ({unit})", axis, legend=legend, x=x)


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
        "hovertemplate": f"{_NAMES[kind]} for %{{customdata:.4g}} {unit} at %{{x:.5g}} {unit}<extra></extra>",
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
        "fillpattern": {
            "shape": "/",
            "fgcolor": SPAN_COLOURS["lost"],
            "bgcolor": "rgba(217,98,43,0.12)",
            "size": 7,
        },
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
