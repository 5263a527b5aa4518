"""What the page says about all runs together: headline, result table, learning curves.

A section is a function of the report that gives HTML, or nothing where there is no data for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from littoral.reports import figures
from littoral.reports.markup import Cell, duration, money, number, paragraph, percent, plot, seconds, size, table
from littoral.reports.story import Story
from littoral.reports.tables import Ranking, Row, Spread, ranking_of, rows_of, summaries_of


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


# -- headline ---------------------------------------------------------------------------------------------------


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
    tiers = " and ".join(dict.fromkeys(site.tier for site in continuum.sites))
    place = f"{len(continuum.devices)} devices at {_count(len(continuum.sites), 'site')} ({tiers})"
    accuracy = first.result.get("target_accuracy")
    goal = f"to an accuracy of {accuracy:.4g}" if accuracy else f"for {first.plan.epochs} epochs"
    others = len({(s.job.get("name"), s.continuum.name) for s in report.stories}) - 1
    more = f" The first of {others + 1} different jobs is described here." if others else ""
    world = first.result.get("world", "simulated")
    return f"Training {name} {goal} on the continuum {continuum.name!r}: {place}. World: {world}.{more}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one_run(report: Report) -> list[tuple[str, str, str]]:
    row = report.rows[0]
    reached = row.time_to_target_s is not None
    error = row.prediction_error
    predicted = f"{duration(row.predicted_s)} predicted" + ("" if error is None else f" ({error:+.1%})")
    tiles = [("strategy", row.variant.split(",")[0], f"planner {report.stories[0].plan.planner}, seed {row.seed}")]
    tiles.append(("time to target" if reached else "time", duration(row.time_to_target_s or row.time_s), predicted))
    if row.accuracy is not None:
        target = report.stories[0].result.get("target_accuracy")
        goal = "no target" if not target else f"target {target:.4g} {'reached' if reached else 'not reached'}"
        tiles.append(("accuracy", f"{row.accuracy:.1%}", goal))
    tiles.append(("sent", size(row.bytes_sent).text, f"{size(row.wan_bytes).text} between sites"))
    tiles.append(("cost", money(row.cost_usd).text, f"{row.epochs:.3g} epochs"))
    return tiles


def _many_runs(report: Report) -> list[tuple[str, str, str]]:
    ranking, rows = report.ranking, report.rows
    variants = len({row.variant for row in rows})
    tiles = [("runs", str(len(rows)), f"{_count(variants, 'variant')}, {_count(len({r.seed for r in rows}), 'seed')}")]
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
        tiles.append(("best final accuracy", f"{top.accuracy:.1%}", top.label))
    return tiles


def _verdict(report: Report) -> str:
    ranking = report.ranking
    if len(ranking.order) < 2:
        return ""
    (best, time), (worst, slow) = ranking.order[0], ranking.order[-1]
    goal = "reaches the target" if ranking.to_target else "is done"
    missed = f" Not ranked, as not every run reached the target: {'; '.join(ranking.unreached)}." if ranking.unreached else ""
    return f"{best} {goal} in {duration(time)}, {ranking.ratio:.3g} times sooner than {worst} ({duration(slow)}).{missed}"


def _tiles(tiles: list[tuple[str, str, str]]) -> str:
    cells = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>'
        for name, value, more in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


# -- result table -----------------------------------------------------------------------------------------------

_HEADS = (
    ("run", "strategy with its parameters, and planner"),
    ("seed", "what all randomness of the run comes from"),
    ("to target", "time until the median of three evaluations passed the target accuracy"),
    ("total time", "the world's clock at the end"),
    ("accuracy", "at the last evaluation"),
    ("epochs", "times that all samples were used"),
    ("throughput eff.", "samples per second, of what all devices could do alone without communication"),
    ("goodput eff.", "time to the target if all compute were pooled at no cost, over the time it took"),
    ("sent", "bytes of all messages"),
    ("between sites", "bytes that left their site"),
    ("cost", "devices for their time, and bytes that have a price"),
    ("deadlines missed", "by background apps, of those checked"),
    ("predicted", "what the plan foretold for as many epochs as the run did"),
    ("error", "prediction minus run, as a share of the run"),
)


def results(report: Report) -> str:
    """One row per run, and a summary where a variant ran with several seeds."""
    slowest = max((row.time_to_target_s or row.time_s for row in report.rows), default=0.0)
    body = [_result_row(row, slowest) for row in report.rows]
    parts = ["<h2>Results</h2>", table(_HEADS, body, "Results of every run"), _spreads(report)]
    return f'<section id="results">{"".join(parts)}</section>'


def _result_row(row: Row, slowest: float) -> list[Cell]:
    target = row.time_to_target_s
    missed = Cell(f"{row.violated:,} of {row.checked:,}", row.violated, mark="bad" if row.violated else "")
    return [
        Cell(row.variant),
        Cell(str(row.seed), row.seed),
        Cell("not reached") if target is None else Cell(duration(target), target, target / slowest if slowest else None),
        seconds(row.time_s),
        percent(row.accuracy),
        number(row.epochs),
        percent(row.throughput_efficiency, 1),
        percent(row.goodput_efficiency, 1),
        size(row.bytes_sent),
        size(row.wan_bytes),
        money(row.cost_usd),
        missed if row.checked else Cell("no apps"),
        seconds(row.predicted_s),
        number(None if row.prediction_error is None else 100 * row.prediction_error, "+.1f", " %"),
    ]


_SPREAD_HEADS = (
    ("variant", "strategy with its parameters, and planner"),
    ("seeds", "of the runs summarised"),
    ("target reached", "runs that did, of all"),
    ("to target", "mean and standard deviation over the runs that reached it"),
    ("total time", "mean and standard deviation"),
    ("accuracy", "mean and standard deviation"),
    ("goodput eff.", "mean and standard deviation"),
    ("cost", "mean and standard deviation"),
)


def _spreads(report: Report) -> str:
    several = [summary for summary in summaries_of(report.rows) if len(summary.seeds) > 1]
    rows = [
        [
            Cell(s.variant),
            Cell(", ".join(map(str, s.seeds)), len(s.seeds)),
            Cell(f"{s.reached} of {len(s.seeds)}", s.reached),
            _spread(s.time_to_target_s, duration),
            _spread(s.time_s, duration),
            _spread(s.accuracy, lambda value: percent(value, 2).text),
            _spread(s.goodput_efficiency, lambda value: percent(value, 2).text),
            _spread(s.cost_usd, lambda value: money(value).text),
        ]
        for s in several
    ]
    return table(_SPREAD_HEADS, rows, "Over seeds: mean ± standard deviation") if rows else ""


def _spread(value: Spread | None, show: object) -> Cell:
    if value is None or not callable(show):
        return Cell("-")
    around = f" ± {show(value.deviation)}" if value.count > 1 else ""
    return Cell(f"{show(value.mean)}{around}", value.mean)


# -- learning curves --------------------------------------------------------------------------------------------


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
    text = "On data the model has not seen, against the time of the run. Variants differ in colour, dash and symbol; "
    text += "runs of one variant differ by seed. A star marks when the target counts as reached."
    return f'<section id="learning"><h2>Learning</h2>{paragraph(text)}<div class="pair">{plots}</div></section>'
