"""The story as a picture: accuracy against time, with and without updates."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from summary import RECENT, rolling, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from run import Story

SERVED, FROZEN, UPDATE = "#0b6e99", "#b5542b", "#4a8f3c"


def picture(story: Story) -> bytes:
    """PNG, 1200 pixels wide."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    _phases(axes, story)
    _updates(axes, story)
    times = [each.t for each in story.batches]
    axes.plot(times, rolling(story.batches), color=SERVED, linewidth=2.2, label="with updates")
    axes.plot(times, rolling(story.batches, frozen=True), color=FROZEN, linewidth=1.8, linestyle="--",
              label="without: the first version")  # fmt: skip
    axes.set_xlim(0, times[-1])
    axes.set_ylim(0, 1)
    axes.set_xlabel("time (s)")
    axes.set_ylabel(f"accuracy, last {RECENT * story.batches[0].pictures} pictures")
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _phases(axes: Axes, story: Story) -> None:
    ends = [start for start, _ in story.phases[1:]] + [story.batches[-1].t]
    for number, ((start, name), end) in enumerate(zip(story.phases, ends, strict=True)):
        if number:
            axes.axvline(start, color="#555555", linewidth=1.0, linestyle=":", label="drift" if number == 1 else None)
        axes.text((start + end) / 2, 1.02, name, ha="center", va="bottom", fontsize=10, color="#333333")


def _updates(axes: Axes, story: Story) -> None:
    """From when it was asked for until it was promoted or refused."""
    for number, update in enumerate(story.updates):
        end = update["ended"] if update["ended"] is not None else story.batches[-1].t
        label = "update, to version" if number == 0 else None
        axes.axvspan(update["asked"], end, color=UPDATE, alpha=0.16, linewidth=0, label=label)
        axes.axvline(end, color=UPDATE, linewidth=0.8)
        told = f"v{update['version']}" if update["state"] == "promoted" else update["state"]
        axes.text((update["asked"] + end) / 2, 0.02, told, fontsize=9, color=UPDATE, ha="center", va="bottom")


def page(story: Story) -> str:
    """One HTML file with the picture and the numbers."""
    content = base64.b64encode(picture(story)).decode()
    told = "".join(
        f"<li>{escape(str(u['why']))}: {escape(u['state'])}, {escape(u['reason'])}</li>" for u in story.updates
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Keep fresh</title><style>body{{font:16px sans-serif;max-width:820px;margin:2em auto;padding:0 1em}}
img{{width:100%}}pre{{overflow:auto}}</style><h1>Accuracy of a served model while its pictures change</h1>
<img alt="Accuracy against time, with and without updates" src="data:image/png;base64,{content}">
<pre>{escape(table(story))}</pre><h2>Updates</h2><ol>{told}</ol></html>
"""
