"""The drift study as a picture: accuracy against time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drift_courses import image_course
from drift_serving import Outcome
from littoral.incremental.images import digits
from littoral.incremental.stream import seasons

COLOURS = {"never": "#b3402a", "always": "#8a8a8a", "drift trigger": "#1f5fa8"}
RECENT = {"elec2": 4 * 7 * 48}  # answers that a point is a mean of; 200 elsewhere


def draw(path: Path, drawn: Mapping[str, Mapping[str, Outcome]]) -> None:
    """Accuracy of the last answers, one panel for each stream, with a mark at each update of the trigger."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(len(drawn), 1, figsize=(10, 3.5 * len(drawn)), layout="constrained", squeeze=False)
    for axis, (name, outcomes) in zip(grid[:, 0], drawn.items(), strict=True):
        last = RECENT.get(name, 200)
        for label, outcome in outcomes.items():
            _curve(axis, label, outcome, last)
        axis.set(xlabel="sample", ylabel=f"accuracy of the last {last}", ylim=(-0.08, 1.02))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 0.08), fontsize=8)
        axis.set_title(f"{name}, seed 0" + ("" if name in RECENT else " (yellow: a drift sets in)"), pad=16)
        if name not in RECENT:
            _mark_phases(axis)
    figure.savefig(path, dpi=110)


def _curve(axis: Any, label: str, outcome: Outcome, last: int) -> None:
    colour = COLOURS[label]
    sums = np.cumsum([0.0, *(1.0 - wrong for wrong in outcome.wrong)])
    means = (sums[last:] - sums[:-last]) / last
    name = f"{label}: {100 * outcome.accuracy:.1f} %, {len(outcome.updates)} updates"
    axis.plot(outcome.first + last + np.arange(len(means)), means, color=colour, linewidth=1.4, label=name)
    if label not in ("never", "always"):
        axis.plot(outcome.updates, [-0.04] * len(outcome.updates), "^", color=colour, label=f"{label}: update")


def _mark_phases(axis: Any) -> None:
    drifts = image_course(digits(), seasons(), 0).drifts or ()
    for phase, (start, over) in zip(seasons(), [(0, 0), *drifts], strict=True):
        axis.axvspan(start, start + over, color="#f0d9a0", alpha=0.6, linewidth=0)
        axis.axvline(start, color="#999999", linewidth=0.8)
        axis.text(start + 60, 1.03, phase.name, fontsize=8)
