"""One page with Deep-Edge's Table I and figures 3, 4, 5, 9, 10 and 11, from measurements of one's own.

A section is a function that gives HTML, or nothing where there is no data for it. What the paper (IC2E'20) observed
is said beside each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from littoral.profiling.estimators import estimators
from littoral.profiling.profile import Profile
from littoral.profiling.table import TableRow, summary
from littoral.profiling.table import table as table_of
from littoral.reports import profile_figures as figures
from littoral.reports.markup import Cell, duration, number, paragraph, percent, plot, seconds, table
from littoral.reports.page import need, page_file, shell, write_whole
from littoral.reports.profile_numbers import (
    Response,
    Series,
    Third,
    check_fitted,
    outer_thirds,
    response,
    series_of,
    step_seconds,
)
from littoral.reports.profile_solvers import Front, Times, epochs, front, gains

Fronts = Sequence[tuple[str, Front]]

_ALIKE = 0.05  # of the processor: thirds that differ by less show no contention


def write_profile_report(
    profile: Profile,
    out: Path,
    *,
    times: Times | None = None,
    broken: Mapping[str, int] | None = None,
    fronts: Fronts = (),
    title: str = "Profile",
) -> Path:
    """Write the page of a fitted profile; the file written. It appears whole or not at all.

    ``times`` are epoch seconds by solver over the same experiments (not finite: no plan), ``broken`` in how many of
    them its plan breaks a rule, ``fronts`` the plans of jobs with their fairness. Without them their sections are left
    out.
    """
    need("plotly")
    check_fitted(profile)
    page = page_file(out)
    write_whole(page, _page(profile, times or {}, broken or {}, fronts, title).encode())
    return page


def _page(profile: Profile, times: Times, broken: Mapping[str, int], fronts: Fronts, title: str) -> str:
    series = series_of(profile)
    sections = [
        ("table-1", "Table I: how well each function is known", _errors(profile)),
        ("figure-3", "Figure 3: step time by device kind", _steps(series)),
        ("figure-4", "Figure 4: step time under contention", _contention(series)),
        ("figure-5", "Figure 5: use before and during training", _states(series)),
        ("figure-9", "Figure 9: what each function depends on", _responses(profile, series)),
        ("figure-10", "Figure 10: epoch time by solver", epochs(times, broken)),
        ("figure-11", "Figure 11: speed-up over equal shards", gains(times, broken)),
        *((f"front-{i}", f"Quick, cheap or fair: {name}", front(plans)) for i, (name, plans) in enumerate(fronts, 1)),
    ]
    shown = [(anchor, head, body) for anchor, head, body in sections if body]
    parts = [f'<section id="{anchor}"><h2>{escape(head)}</h2>{body}</section>' for anchor, head, body in shown]
    links = [(anchor, head.partition(":")[0]) for anchor, head, _ in shown]
    return shell(title, links, _headline(profile, title) + "".join(parts), "the rows of a profile")


def _headline(profile: Profile, title: str) -> str:
    points = len({row.point for row in profile.training} | {row.point for row in profile.apps})
    kinds: dict[str, list[str]] = {}
    for kind, task in sorted(profile.pairs()):
        kinds.setdefault(task, []).append(kind)
    said = [f"{', '.join(names)} ({task})" for task, names in kinds.items()]
    text = (
        f"{len(profile.training)} windows of training and {len(profile.apps)} of apps, at {points} stress points, on "
        f"device kinds {'; '.join(said)}. The figures have "
        "the numbers that they have in the Deep-Edge paper (IC2E'20); all values are this profile's own."
    )
    return f'<header class="head"><h1>{escape(title)}</h1>{paragraph(text, "lead")}</header>'


# -- table I ---------------------------------------------------------------------------------------------


def _errors(profile: Profile) -> str:
    rows = table_of(profile)
    kinds = [kind for kind, _ in profile.pairs()]
    several, repeated = len(kinds) > len(set(kinds)), any(row.floor is not None for row in rows)
    heads = [
        ("function", "what is learned"), ("kind", "of device"), *([("task", "")] if several else []),
        ("points", "stress points learned from / tested on"), ("MAPE %", "mean ± deviation of relative errors"),
        *([("floor %", "how far such a mean is off")] if repeated else []),
        ("algorithm", "that was chosen"), ("columns", "that it uses"),
    ]  # fmt: skip
    text = (
        "Errors on stress points that were not learned from, relative to the mean of a point's visits; shares below "
        f"1 % count as 1 %. {len(profile.training)} rows of training and {len(profile.apps)} of apps. The paper: "
        "3.433 % over 14 functions, with 72 to 264 tested points a kind."
    )
    cells = [_error(row, several, repeated) for row in rows]
    said = summary(rows)
    verdict = f"{said[0].upper()}{said[1:]}; what never varied is left out."
    return (
        paragraph(text)
        + table(heads, cells, "Points are learned/tested; x6: in six splits, so that every point is tested once")
        + paragraph(verdict, "verdict")
    )


def _error(row: TableRow, several: bool, repeated: bool) -> list[Cell]:
    return [
        Cell(row.function), Cell(row.kind), *([Cell(row.task)] if several else []),
        Cell(row.points, row.train_points),
        Cell(f"{100 * row.mape:.2f} ± {100 * row.mape_sd:.2f}", row.mape),
        *([number(None if row.floor is None else 100 * row.floor, ".2f")] if repeated else []),
        Cell(row.algorithm), Cell(", ".join(row.columns) or "-"),
    ]  # fmt: skip


# -- figures 3 to 5 --------------------------------------------------------------------------------------


def _steps(series: Sequence[Series]) -> str:
    means = ", ".join(
        f"{one.label} {duration(float(np.mean([step_seconds(row) for row in one.rows])))} ({len(one.rows)} windows)"
        for one in series
    )
    text = (
        "Share of windows whose step took no longer. Batches differ between windows, so a step counts per sample: "
        f"computing, and the exchange over the batch. Means: {means}. "
        "The paper: 1.89 s a step on a TX2 and 2.69 s on a Nano."
    )
    return paragraph(text) + plot(figures.step_figure(series), "Cumulative distribution of step times by device kind")


def _contention(series: Sequence[Series]) -> str:
    thirds = {one.label: outer_thirds(one.rows) for one in series}
    text = (
        "Of each kind, the third of the windows with the least processor use before training and the third with the "
        "most. Bars are medians, whiskers quartiles. A window counts beside the median of its kind's windows with the "
        "same batch, as batches change more than contention does. The paper: step time rises by about 20 %, with the "
        "GPU 66 to 88 % in use before."
    )
    heads = (
        ("kind", "of device"), ("use, little", "median before training"), ("use, much", "median before training"),
        ("step, little", "median per sample, all batches"), ("step, much", "median per sample, all batches"),
        ("longer", "at like batches: the ratio of the bars"),
    )  # fmt: skip
    caption = f"Windows in a third: {', '.join(f'{label} {little.windows}' for label, (little, _) in thirds.items())}"
    rows = [_contrast(label, *pair) for label, pair in thirds.items()]
    alike = [label for label, (little, much) in thirds.items() if much.cpu - little.cpu < _ALIKE]
    note = f"Hardly any contrast in use on {', '.join(alike)}: its thirds say nothing." if alike else ""
    drawn = plot(figures.contention_figure(thirds), "Step time with little and much contention by device kind")
    return paragraph(text) + drawn + table(heads, rows, caption) + paragraph(note)


def _contrast(label: str, little: Third, much: Third) -> list[Cell]:
    ratio = much.quartiles[1] / little.quartiles[1] - 1
    return [
        Cell(label), percent(little.cpu), percent(much.cpu), seconds(little.step_s), seconds(much.step_s),
        Cell(f"{100 * ratio:+.0f} %", ratio),
    ]  # fmt: skip


def _states(series: Sequence[Series]) -> str:
    carded = _carded(series)
    text = (
        f"Each of {sum(len(one.rows) for one in series)} windows is a point; on the dashed line training changes "
        "nothing. Before: means. During: 95th percentiles. The paper foretells the state during training from the one "
        f"before.{'' if carded else ' No kind has a GPU, so there is no figure for it.'}"
    )
    wanted = [("cpu", "Processor", series), ("memory", "Memory", series), ("gpu", "GPU", carded)]
    parts = [
        (name, plot(figures.state_figure(some, metric), f"{name} in use")) for metric, name, some in wanted if some
    ]
    drawn = "".join(f"<div><h3>{name}</h3>{part}</div>" for name, part in parts)
    return f'{paragraph(text)}<div class="pair">{drawn}</div>'


def _carded(series: Sequence[Series]) -> list[Series]:
    """Those with a GPU in use at some time."""
    return [one for one in series if any(row.before.gpu > 0 or row.during.gpu > 0 for row in one.rows)]


# -- figure 9 --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One part of Figure 9: a function along one of its columns, and what the paper observed."""

    head: str
    function: str
    column: str
    x: str
    y: str
    papers: str


_COMPUTE, _UPDATE = "compute time per sample", "update time per batch"
PANELS = (
    Panel(head="(a) GPU and compute time", function="compute", column="gpu", x="GPU in use before", y=_COMPUTE,
          papers="rises"),
    Panel(head="(b) Processor and compute time", function="compute", column="cpu",
          x="processor in use before", y=_COMPUTE, papers="rises"),
    Panel(head="(c) Batch and compute time", function="compute", column="batch", x="batch", y=_COMPUTE,
          papers="falls"),
    Panel(head="(d) Batch and memory", function="memory", column="batch", x="batch", y="memory during training",
          papers="rises"),
    Panel(head="(e) Batch and update time", function="update", column="batch", x="batch", y=_UPDATE,
          papers="falls"),
    Panel(head="(f) Server's processor and update time", function="update", column="server_cpu",
          x="server's processor in use before", y=_UPDATE, papers="rises"),
    Panel(head="(f) Workers and update time", function="update", column="workers", x="workers", y=_UPDATE,
          papers="rises"),
    Panel(head="Memory and compute time", function="compute", column="memory", x="memory in use before",
          y=_COMPUTE, papers="does not change"),
)  # fmt: skip


def _responses(profile: Profile, series: Sequence[Series]) -> str:
    models, carded = {one.label: estimators(profile, one.kind, one.task) for one in series}, _carded(series)
    parts = []
    for panel in PANELS:
        some = carded if panel.column == "gpu" else series
        if some:
            found = [response(profile, models[one.label], one, panel.function, panel.column) for one in some]
            parts.append(f"<div><h3>{escape(panel.head)}</h3>{_panel(panel, found)}</div>")
    text = (
        f"Points are the {len(profile.training)} measured windows. A curve is the learned function along one input, "
        "from the least to the greatest value measured, all other inputs at their kind's median; nine in ten new "
        "measurements should lie in its band. In the points the other inputs vary as well, so those measured far from "
        f"the medians lie far from the curve.{'' if carded else ' No kind has a GPU, so there is no (a).'}"
    )
    return f'{paragraph(text)}<div class="pair">{"".join(parts)}</div>'


def _panel(panel: Panel, found: Sequence[Response]) -> str:
    axis = figures.input_axis(found, panel.x, panel.column)
    drawn = figures.response_figure(found, axis, panel.y, share=panel.function == "memory")
    fixed = [one.label for one in found if np.ptp(one.x) == 0]
    unused = [one.label for one in found if not one.used and one.label not in fixed]
    flat = f" Flat on {', '.join(unused)}: this input was found not to matter there." if unused else ""
    flat += f" It was never varied on {', '.join(fixed)}." if fixed else ""
    return plot(drawn, panel.head) + paragraph(f"The paper: it {panel.papers}.{flat}")
