"""What the page says about all runs together: headline, result table, learning curves.

A section is a function of the report that gives HTML, or nothing where there is no data for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from littoral.continuum.device import TIERS
from littoral.reports import figures
from littoral.reports.markup import (
    duration,
    money,
    paragraph,
    percent,
    plot,
    size,
)
from littoral.reports.results import results
from littoral.reports.story import Story
from littoral.reports.tables import Ranking, Row, jobs_of, ranking_of, rows_of, worlds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The runs of a page and what was counted from them."""

    stories: tuple[Story, ...]
    rows: tuple[Row, ...]
    ranking: Ranking


def report_of(stories: Sequence[Story]) -> Report:
    """Count what the sections need."""
    rows = rows_of(stories)
    return Report(stories=tuple(stories), rows=tuple(rows), ranking=ranking_of(rows))


def title_of(report: Report) -> str:
    """The report in a few words."""
    names = list(dict.fromkeys(str(story.job.get("name", story.folder)) for story in report.stories))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# -- headline --------------------------------------------------------------------------------------------


def headline(report: Report) -> str:
    """What was trained where, and who won."""
    parts = [f"<h1>{escape(title_of(report))}</h1>", paragraph(_setting(report), "lead")]
    if len(report.stories) == 1:
        parts.append(_tiles(_one_run(report)))
    else:
        parts += [_tiles(_many_runs(report)), paragraph(_verdict(report), "verdict")]
    return f'<header class="head">{"".join(parts)}</header>'


def _setting(report: Report) -> str:
    first = report.stories[0]
    task = first.job.get("task")
    name = str(task.get("name", "") if isinstance(task, dict) else task).rsplit(".", 1)[-1]
    continuum = first.continuum
    tiers = ", ".join(tier for tier in TIERS if any(site.tier == tier for site in continuum.sites))
    place = f"{len(continuum.devices)} devices at {_count(len(continuum.sites), 'site')} ({tiers})"
    accuracy = first.result.get("target_accuracy")
    goal = (
        f"to an accuracy of {100 * accuracy:.4g} %"
        if accuracy and first.evaluations
        else f"for {first.plan.epochs} epochs"
    )
    others = len(set(jobs_of(report.stories))) - 1
    more = f" The first of {others + 1} different jobs is described here." if others else ""
    worlds = worlds_of(report.stories)
    where = f"{'World' if len(worlds) == 1 else 'Worlds'}: {', '.join(worlds)}"
    return f"Training {name} {goal} on the continuum {continuum.name!r}: {place}. {where}.{more}"


def _count(many: int, noun: str) -> str:
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"


def _one_run(report: Report) -> list[tuple[str, str, str]]:
    row = report.rows[0]
    reached = row.time_to_target_s is not None
    error = row.prediction_error
    predicted = "no epoch finished" if error is None else f"prediction {100 * error:+.1f} % on whole epochs"
    tiles = [("strategy", row.variant.split(",")[0], f"planner {report.stories[0].plan.planner}, seed {row.seed}")]
    tiles.append(("time to target" if reached else "time", duration(row.time_to_target_s or row.time_s), predicted))
    if row.accuracy is not None:
        target = report.stories[0].result.get("target_accuracy")
        goal = "no target" if not target else f"target {100 * target:.4g} % {'reached' if reached else 'not reached'}"
        tiles.append(("accuracy", percent(row.accuracy).text, goal))
    tiles.append(("sent", size(row.bytes_sent).text, f"{size(row.wan_bytes).text} between sites"))
    tiles.append(("cost", money(row.cost_usd).text, f"{row.epochs:.3g} epochs"))
    return tiles


def _many_runs(report: Report) -> list[tuple[str, str, str]]:
    ranking, rows = report.ranking, report.rows
    variants = len({row.variant for row in rows})
    tiles = [
        (
            "runs",
            str(len(rows)),
            f"{_count(variants, 'variant')}, {_count(len({r.seed for r in rows}), 'seed')}",
        )
    ]
    if ranking.order:
        best, time = ranking.order[0]
        what = "fastest to the target" if ranking.to_target else "fastest"
        tiles.append((what, duration(time), best))
        if len(ranking.order) > 1:
            tiles.append(("ahead of the slowest", f"{ranking.ratio:.3g}x", ranking.order[-1][0]))
    cheapest = min(rows, key=lambda row: row.cost_usd)
    if cheapest.cost_usd:
        tiles.append(("cheapest run", money(cheapest.cost_usd).text, cheapest.label))
    accuracies = [row for row in rows if row.accuracy is not None]
    if accuracies:
        top = max(accuracies, key=lambda row: row.accuracy or 0.0)
        tiles.append(("best final accuracy", percent(top.accuracy).text, top.label))
    return tiles


def _verdict(report: Report) -> str:
    ranking = report.ranking
    if len(ranking.order) < 2:
        return ""
    (best, time), (worst, slow) = ranking.order[0], ranking.order[-1]
    goal = "reaches the target" if ranking.to_target else "is done"
    missed = (
        f" Not ranked, as not every run reached the target: {'; '.join(ranking.unreached)}."
        if ranking.unreached
        else ""
    )
    means = " Means over seeds." if len(report.rows) > len({row.variant for row in report.rows}) else ""
    sooner = f"{ranking.ratio:.3g} times sooner than {worst} ({duration(slow)})"
    return f"{best} {goal} in {duration(time)}, {sooner}.{means}{missed}"


def _tiles(tiles: list[tuple[str, str, str]]) -> str:
    cells = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value).replace("_", "_<wbr>")}'
        f"<small>{escape(more)}</small></dd></div>"
        for name, value, more in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def result_tables(report: Report) -> str:
    """What every run achieved."""
    return results(report.rows)


# -- learning curves -------------------------------------------------------------------------------------


def learning(report: Report) -> str:
    """Accuracy and loss against time."""
    accuracy = figures.accuracy_figure(report.stories, report.rows)
    loss = figures.loss_figure(report.stories, report.rows)
    if accuracy is None or loss is None:
        return ""
    plots = (
        f"<div>{plot(accuracy, 'Accuracy against time for every run')}</div>"
        f"<div>{plot(loss, 'Loss against time for every run')}</div>"
    )
    text = (
        "On data the model has not seen, against the time of the run. Variants differ in colour, dash and "
        "symbol; runs of one variant differ by seed. A star marks when the target counts as reached."
    )
    return f'<section id="learning"><h2>Learning</h2>{paragraph(text)}<div class="pair">{plots}</div></section>'
