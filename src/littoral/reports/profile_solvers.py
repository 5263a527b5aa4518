"""What solvers make of a profile: epoch times and speed-ups over experiments, and the plans of a front.

A section is a function that gives HTML, or nothing where there is no data for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from littoral.planning.plan import Plan
from littoral.reports import profile_figures as figures
from littoral.reports.markup import Cell, money, number, paragraph, plot, seconds, table
from littoral.reports.profile_numbers import BASELINE, solved, speedups

Front = Sequence[tuple[Plan, float]]  # plans with their fairness
Times = Mapping[str, Sequence[float]]  # epoch seconds by solver, over the same experiments

_HISTOGRAMS = ("search", "deepedge")
_MUCH = 1.5  # times faster: the paper's "more than 50 %"


def epochs(times: Times, broken: Mapping[str, int]) -> str:
    """Figure 10: epoch times by solver."""
    if not any(solved(values) for values in times.values()):
        return ""
    count = max(len(values) for values in times.values())
    text = (
        f"Share of {count} random experiments whose epoch takes no longer, as the learned functions foretell it. "
        "Experiments without a plan are left out, for each solver its own. The paper: 120 experiments on a testbed, no "
        "deadline missed."
    )
    heads = (
        ("solver", ""), ("solved", "experiments with a plan"), ("no plan", "some limit could not be kept"),
        ("breaks a rule", "plans that miss a deadline or a limit"), ("mean epoch", ""),
        ("faster than fair", "mean, where both have a plan"),
    )  # fmt: skip
    rows = [_solver(name, times, broken.get(name)) for name in times]
    drawn = plot(figures.epoch_figure(times), "Cumulative distribution of epoch times by solver")
    return paragraph(text) + drawn + table(heads, rows, "Epoch times by solver")


def _solver(name: str, times: Times, broken: int | None) -> list[Cell]:
    found = solved(times[name])
    ratios = speedups(times, name) if BASELINE in times else []
    return [
        Cell(name), number(len(found), "d"), number(len(times[name]) - len(found), "d"), number(broken, "d"),
        seconds(float(np.mean(found)) if found else None),
        number(float(np.mean(ratios)) if ratios else None, ".3g", "x"),
    ]  # fmt: skip


def gains(times: Times, broken: Mapping[str, int]) -> str:
    """Figure 11: how much sooner than with equal shards an epoch ends."""
    wanted = [name for name in _HISTOGRAMS if name in times and BASELINE in times]
    found = {name: ratios for name in wanted if (ratios := speedups(times, name))}
    if not found:
        return ""
    said = "; ".join(
        f"{name}: mean {np.mean(ratios):.3g}, above {_MUCH} in {100 * np.mean(np.array(ratios) > _MUCH):.0f} % of "
        f"{len(ratios)} experiments"
        for name, ratios in found.items()
    )
    text = (
        f"Epoch time with equal shards on all workers over the solver's, where both have a plan. {said}. "
        f"The paper: mean {figures.PAPERS_SPEEDUP}, above {_MUCH} in more than half of 120."
    )
    if late := broken.get(BASELINE):
        text += f" Equal shards break a rule, such as an app's deadline, in {late} of them; solvers may not."
    return paragraph(text) + plot(figures.speedup_figure(found), "Histogram of speed-ups over equal shards")


def front(plans: Front) -> str:
    """The plans between quick, cheap and fair."""
    if not plans:
        return ""
    text = (
        f"{'1 plan' if len(plans) == 1 else f'{len(plans)} plans'}, none of them worse than another in time, cost and "
        "fairness alike. Fairness is Jain's index of how long each worker is busy: 1 when all carry the same. Take one "
        "with 'littoral plan --pick'."
    )
    text += "" if any(plan.predicted.cost_usd for plan, _ in plans) else " Nothing has a price here."
    heads = (
        ("plan", "its number"), ("time", "predicted"), ("cost", "predicted"), ("fairness", ""), ("workers", ""),
        ("servers", ""),
    )  # fmt: skip
    rows = [
        [
            Cell(str(i), i), seconds(plan.predicted.time_s), money(plan.predicted.cost_usd), number(fair),
            number(len(plan.workers), "d"), number(len(plan.servers), "d"),
        ]
        for i, (plan, fair) in enumerate(plans, start=1)
    ]  # fmt: skip
    return paragraph(text) + plot(figures.front_figure(plans), "Cost against time") + table(heads, rows, "Plans")
