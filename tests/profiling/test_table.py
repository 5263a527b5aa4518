"""Table I: a function that varies counts in the mean however little was learned of it."""

from __future__ import annotations

from littoral.profiling.table import TableRow, show


def row(function: str, algorithm: str, mape: float) -> TableRow:
    return TableRow(function=function, kind="nano", task="digits", train_points=8, test_points=2, train_rows=8,
                    test_rows=2, mape=mape, mape_sd=0.0, algorithm=algorithm, columns=())  # fmt: skip


def test_only_what_never_varied_is_left_out_of_the_mean() -> None:
    rows = [row("compute", "physical", 0.02), row("update", "constant", 0.10), row("gpu", "constant", 0.0)]
    assert "mean of all: 6.00 %" in show(rows)
