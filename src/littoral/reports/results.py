"""The result tables: one row per run, and mean and spread where a variant ran with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from littoral.reports.markup import NONE, Cell, duration, money, number, percent, seconds, size, table
from littoral.reports.tables import Row, Spread, summaries_of

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
    ("predicted", "what the plan foretold for the epochs that the run finished"),
    ("error", "prediction minus what they took, as a share of it"),
)


def results(rows: Sequence[Row]) -> str:
    """One row per run, and a summary where a variant ran with several seeds."""
    slowest = max((row.time_to_target_s or row.time_s for row in rows), default=0.0)
    body = [_result_row(row, slowest) for row in rows]
    parts = ["<h2>Results</h2>", table(_HEADS, body, "Results of every run"), _spreads(rows)]
    return f'<section id="results">{"".join(parts)}</section>'


def _result_row(row: Row, slowest: float) -> list[Cell]:
    target = row.time_to_target_s
    missed = Cell(f"{row.violated:,} of {row.checked:,}", row.violated, mark="bad" if row.violated else "")
    return [
        Cell(row.variant),
        Cell(str(row.seed), row.seed),
        Cell("not reached" if row.target is not None and row.accuracy is not None else NONE)
        if target is None
        else Cell(duration(target), target, target / slowest if slowest else None),
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


def _spreads(runs: Sequence[Row]) -> str:
    several = [summary for summary in summaries_of(runs) if len(summary.seeds) > 1]
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


def _spread(value: Spread | None, show: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell(NONE)
    around = f" ± {show(value.deviation)}" if value.count > 1 else ""
    return Cell(f"{show(value.mean)}{around}", value.mean)
