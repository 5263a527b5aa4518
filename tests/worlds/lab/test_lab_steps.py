"""Reading step times: what is jitter and what is only a quota's rhythm."""

from __future__ import annotations

import random

import pytest

from littoral.worlds.lab.steps import jitter


def test_a_quotas_rhythm_is_no_jitter() -> None:
    """Four steps of 1 ms, then one that waits for the next period: every 20 ms alike."""
    assert jitter({8: [0.001, 0.001, 0.001, 0.001, 0.016] * 100}) == pytest.approx(0.0, abs=1e-9)


def test_long_steps_that_vary_are_jitter() -> None:
    draw = random.Random(0)
    times = [max(0.01, draw.gauss(0.1, 0.02)) for _ in range(400)]
    assert jitter({8: times}) == pytest.approx(0.2, rel=0.15)


def test_too_few_steps_say_nothing() -> None:
    assert jitter({8: [0.1, 0.2]}) == 0.0
