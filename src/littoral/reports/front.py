"""Plans between quick, cheap and fair, as one picture."""

from __future__ import annotations

from collections.abc import Sequence

from littoral.planning.plan import Plan
from littoral.reports.palette import time_axis
from littoral.reports.png import canvas, png


def front_picture(plans: Sequence[tuple[Plan, float]]) -> bytes:
    """Cost against time, fairness by colour, every plan with the number by which it can be picked."""
    figure, axes = canvas(5.0)
    factor, unit = time_axis(max(plan.predicted.time_s for plan, _ in plans))
    times = [plan.predicted.time_s / factor for plan, _ in plans]
    costs = [plan.predicted.cost_usd for plan, _ in plans]
    dots = axes.scatter(times, costs, c=[fair for _, fair in plans], cmap="viridis", s=60, zorder=3)
    for number, (x, y) in enumerate(zip(times, costs, strict=True), start=1):
        axes.annotate(str(number), (x, y), textcoords="offset points", xytext=(6, 6), fontsize=9)
    axes.set_xlabel(f"predicted time ({unit})")
    axes.set_ylabel("predicted cost (USD)")
    figure.colorbar(dots, ax=axes, label="fairness (Jain's index of burdens)")
    return png(figure)
