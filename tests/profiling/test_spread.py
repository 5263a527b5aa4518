"""Log-normal distributions through a mean and a 95th percentile."""

from __future__ import annotations

import numpy as np
import pytest

from littoral.profiling.spread import through


@pytest.mark.parametrize(("mean", "p95"), [(0.1, 0.1), (0.1, 0.12), (0.1, 0.38)])
def test_a_log_normal_has_the_mean_and_the_percentile(mean: float, p95: float) -> None:
    spread = through(mean, p95)
    drawn = np.random.default_rng(3).lognormal(*spread, size=400_000)
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert np.quantile(drawn, 0.95) == pytest.approx(p95, rel=0.02)
    assert np.mean(drawn > spread.longest(0.005)) == pytest.approx(0.005 if p95 > mean else 0.0, abs=0.0005)


def test_doubt_about_the_mean_makes_the_longest_longer() -> None:
    dice, spread = np.random.default_rng(5), through(0.1, 0.12)
    drawn = np.exp(dice.normal(spread.mu + dice.normal(0.0, 0.2, 400_000), spread.sigma))
    assert np.mean(drawn > spread.longest(0.005, doubt=0.2)) == pytest.approx(0.005, abs=0.0005)


def test_a_tail_that_no_log_normal_has_is_kept() -> None:
    assert through(0.1, 1.0).longest(0.05) == pytest.approx(1.0)
    assert through(0.1, 0.05) == through(0.1, 0.1)  # a percentile below the mean is an error of the estimates
    assert through(0.0, 0.0) == through(1e-6, 1e-6)


def test_many_at_once() -> None:
    means, tails = np.array([0.1, 0.2]), np.array([0.12, 0.5])
    both = through(means, tails).longest(0.005)
    assert both.tolist() == [through(0.1, 0.12).longest(0.005), through(0.2, 0.5).longest(0.005)]
