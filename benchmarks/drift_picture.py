"""The drift study as a picture: accuracy against time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drift_courses import half, image_course
from drift_serving import Outcome
from littoral.incremental.images import digits
from littoral.incremental.stream import seasons

DRAWN = {"never": "#b3402a", "always": "#8a8a8a", "adwin": "#1f5fa8"}


def draw(path: Path, images: Sequence[Outcome], prices: Sequence[Outcome]) -> None:
    """Accuracy of the last answers: never, always, and by drift with a mark at each update."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(10, 7), layout="constrained")
    for axis, outcomes, last in ((axes[0], images, 200), (axes[1], prices, 4 * 7 * 48)):
        for (label, colour), outcome in zip(DRAWN.items(), outcomes, strict=True):
            _curve(axis, label, colour, outcome, last)
        axis.set(xlabel="sample", ylabel=f"accuracy of the last {last}", ylim=(-0.08, 1.02))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 0.08), fontsize=8)
    _mark_phases(axes[0])
    axes[0].set_title("digits, seed 0 (yellow: a drift sets in)", pad=16)
    axes[1].set_title("elec2, seed 0")
    figure.savefig(path, dpi=110)


def _curve(axis: Any, label: str, colour: str, outcome: Outcome, last: int) -> None:
    sums = np.cumsum([0.0, *(1.0 - wrong for wrong in outcome.wrong)])
    means = (sums[last:] - sums[:-last]) / last
    name = f"{label}: {100 * outcome.accuracy:.1f} %, {len(outcome.updates)} updates"
    axis.plot(outcome.first + last + np.arange(len(means)), means, color=colour, linewidth=1.4, label=name)
    if label not in ("never", "always"):
        axis.plot(outcome.updates, [-0.04] * len(outcome.updates), "^", color=colour, label=f"{label}: update")


def _mark_phases(axis: Any) -> None:
    drifts = image_course(half(digits(), 1), seasons(), 0).drifts or ()
    for phase, (start, over) in zip(seasons(), [(0, 0), *drifts], strict=True):
        axis.axvspan(start, start + over, color="#f0d9a0", alpha=0.6, linewidth=0)
        axis.axvline(start, color="#999999", linewidth=0.8)
        axis.text(start + 60, 1.03, phase.name, fontsize=8)
