"""Table I: a function that varies counts in the mean however little was learned of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic import training_rows

from littoral.profiling.features import function, training_data
from littoral.profiling.table import TableRow, repeatability, show


def row(function: str, algorithm: str, mape: float, *, published: bool = True, floor: float | None = None) -> TableRow:
    return TableRow(function=function, kind="nano", task="digits", train_points=8, test_points=2, train_rows=8,
                    test_rows=2, mape=mape, mape_sd=0.0, algorithm=algorithm, columns=(), floor=floor,
                    published=published)  # fmt: skip


def test_only_what_never_varied_is_left_out_of_the_mean() -> None:
    rows = [row("compute", "physical", 0.02), row("update", "constant", 0.10), row("gpu", "constant", 0.0)]
    rows.append(row("load", "forest", 0.18, published=False))
    assert "mean of the paper's 2 functions: 6.00 %" in show(rows) and "mean of all 3: 10.00 %" in show(rows)


def test_the_floor_is_how_much_the_same_point_differs() -> None:
    rng, apart = np.random.default_rng(0), []
    for _ in range(400):
        truth = rng.uniform(0.01, 0.1)
        apart += [truth * (1 + 0.05 * rng.standard_normal()) for _ in range(2)]
    rows = training_rows(400)
    again = [replace(row, compute_s=value, point=i // 2, batch=8)
             for i, (row, value) in enumerate(zip((*rows, *rows), apart, strict=False))]  # fmt: skip
    floor = repeatability(training_data(function("compute"), again))
    assert floor == pytest.approx(0.05 * math.sqrt(2 / math.pi) / math.sqrt(2), rel=0.1)  # of means of two
    assert repeatability(training_data(function("compute"), rows)) is None


def test_the_floor_of_means_is_lower_than_that_of_single_visits() -> None:
    row, *_ = training_rows(8)
    twice = [replace(row, compute_s=1.0), replace(row, compute_s=1.1)]
    gap = 0.1 / 1.05 / math.sqrt(2)
    for rows, visits in ((twice, 2), (twice * 8, 16)):
        assert repeatability(training_data(function("compute"), rows)) == pytest.approx(gap / math.sqrt(visits))
