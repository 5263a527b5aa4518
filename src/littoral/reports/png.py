"""The main figures as PNG, drawn with matplotlib for papers and slides: accuracy, timeline, network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from littoral.reports.palette import MARKS, SPAN_COLOURS, looks, time_axis
from littoral.reports.story import Story
from littoral.reports.tables import Row, rows_of
from littoral.reports.timeline import RUN_ROW, Timeline, timeline_of
from littoral.reports.usage import Use, pipe_uses
from littoral.units import show_rate

_WIDTH, _DPI = 10.0, 150


def pictures_of(stories: Sequence[Story]) -> dict[str, bytes]:
    """PNG files by name; what a journal has no data for is left out."""
    rows = rows_of(stories)
    pictures: dict[str, bytes] = {}
    if any(story.evaluations for story in stories):
        pictures["accuracy"] = accuracy_picture(stories, rows)
    for number, (story, row) in enumerate(zip(stories, rows, strict=True), start=1):
        ending = f"-{number}" if len(stories) > 1 else ""
        chart, (uses, _) = timeline_of(story), pipe_uses(story)
        if chart is not None:
            pictures[f"timeline{ending}"] = timeline_picture(chart, row.label)
        if uses:
            pictures[f"network{ending}"] = usage_picture(uses, row.label)
    return pictures


def canvas(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "Littoral"})
    return buffer.getvalue()


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # matplotlib reads a pair of them as mathematics


def accuracy_picture(stories: Sequence[Story], rows: Sequence[Row]) -> bytes:
    """Accuracy against time for every run."""
    figure, axes = canvas(5.0)
    factor, unit = time_axis(max(story.seconds for story in stories))
    look = looks([row.variant for row in rows])
    named: set[str] = set()
    for story, row in zip(stories, rows, strict=True):
        style = look[row.variant]
        label = None if row.variant in named else _plain(row.variant)
        named.add(row.variant)
        times, values = (
            [e.t / factor for e in story.evaluations],
            [100 * e.accuracy for e in story.evaluations],
        )
        axes.plot(
            times,
            values,
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            markersize=4,
            label=label,
        )
        if row.time_to_target_s is not None and values:
            reached = [value for t, value in zip(times, values, strict=True) if t * factor <= row.time_to_target_s]
            axes.plot(row.time_to_target_s / factor, reached[-1], "*", color="#f0c000", markersize=14,
                      markeredgecolor="#333333", zorder=5)  # fmt: skip
    for target in sorted({s.result["target_accuracy"] for s in stories if s.result.get("target_accuracy")}):
        axes.axhline(100 * target, color="#7f8c99", linestyle="--", linewidth=1)
        axes.annotate(
            f" target {100 * target:.4g} %",
            (0.0, 100 * target),
            xycoords=("axes fraction", "data"),
            va="bottom",
            fontsize=9,
        )
    axes.set(xlabel=f"time ({unit})", ylabel="accuracy (%)", xlim=(0, None))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=9)
    return png(figure)


def timeline_picture(chart: Timeline, title: str) -> bytes:
    """A row per node, as on the page."""
    figure, axes = canvas(1.6 + 0.32 * len(chart.rows))
    factor, unit = time_axis(chart.seconds)
    rows = {row: len(chart.rows) - 1 - i for i, row in enumerate(chart.rows)}
    lanes = {"wait": (-0.04, 0.08), "compute": (-0.25, 0.5), "fetch": (0.28, 0.16), "send": (-0.44, 0.16),
             "lost": (-0.4, 0.8)}  # fmt: skip
    for kind, (bottom, height) in lanes.items():
        hatch = {"hatch": "////", "facecolor": "#f9e5db", "edgecolor": SPAN_COLOURS["lost"]}
        style = hatch if kind == "lost" else {"facecolor": SPAN_COLOURS[kind]}
        label: str | None = kind
        for row, spans in chart.lanes[kind].items():
            bars = [(start / factor, (stop - start) / factor) for start, stop in spans]
            axes.broken_barh(bars, (rows[row] + bottom, height), linewidth=0.3, label=label, **style)
            label = None
    for kind, found in chart.marks.items():
        name, _, symbol, colour = MARKS[kind]
        shift = 0.22 if kind == "evaluation" else -0.22 if kind == "epoch" else 0.0
        heights = [rows[mark.node] + (shift if mark.node == RUN_ROW else 0.0) for mark in found]
        hollow = {"facecolors": "none", "edgecolors": colour} if kind == "evaluation" else {"c": colour}
        axes.scatter([mark.t / factor for mark in found], heights, marker=symbol, label=name, zorder=4, s=26, **hollow)
    axes.set_yticks(list(rows.values()), [_plain(row) for row in rows])
    axes.set(
        xlabel=f"time ({unit})",
        xlim=(-0.005 * chart.seconds / factor, 1.01 * chart.seconds / factor),
        ylim=(-0.6, len(rows) - 0.4),
    )
    axes.set_title(_plain(title), loc="left", fontsize=10)
    figure.legend(loc="outside lower left", ncols=6, frameon=False, fontsize=8)
    return png(figure)


def usage_picture(uses: Sequence[Use], title: str) -> bytes:
    """A strip per pipe, as on the page."""
    figure, axes = canvas(1.0 + 0.5 * len(uses))
    factor, unit = time_axis(uses[0].edges[-1])
    for row, use in enumerate(uses):
        floor = len(uses) - 1 - row
        edges = [edge / factor for edge in use.edges]
        heights = [floor + 0.85 * share for share in use.shares]
        axes.stairs(heights, edges, baseline=floor, fill=True, facecolor="#2a7fc9", alpha=0.45)
        axes.axhline(floor, color="#9aa5b1", linewidth=0.6)
    names = [f"{_plain(use.label)}\n{show_rate(use.rate_bytes_per_s)}, {use.in_words()}" for use in uses]
    axes.set_yticks([len(uses) - 1 - row + 0.4 for row in range(len(uses))], names, fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel=f"time ({unit})", xlim=(0, uses[0].edges[-1] / factor), ylim=(-0.05, len(uses)))
    axes.set_title(_plain(f"Share of capacity in use: {title}"), loc="left", fontsize=10)
    return png(figure)
