"""Expected gain: what is lost is never overstated, more evidence and more at stake decide sooner."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.watching.gain import Answers, Stakes, lost, weigh

STAKES = Stakes(value=1.0, horizon=2000, cost=20)
answers = st.integers(0, 500).flatmap(lambda seen: st.builds(Answers, wrong=st.integers(0, seen), seen=st.just(seen)))


def test_nothing_seen_is_nothing_to_gain() -> None:
    nothing = Answers(wrong=0, seen=0)
    assert nothing.rate == 0.5 and not weigh(nothing, nothing, STAKES).update
    assert weigh(nothing, Answers(wrong=10, seen=200), STAKES).points < 10


def test_more_evidence_of_the_same_rates_is_more_to_gain() -> None:
    points = [weigh(Answers(wrong=3 * n, seen=10 * n), Answers(wrong=n, seen=10 * n), STAKES).points
              for n in (1, 20, 200, 20_000)]  # fmt: skip
    assert points == sorted(points) and points[0] == 0
    assert points[-1] == pytest.approx(20, abs=0.5)


@given(answers, answers, st.floats(0.5, 0.999))
def test_the_loss_is_a_share_and_never_over_what_was_seen(now: Answers, fresh: Answers, confidence: float) -> None:
    share = lost(now, fresh, confidence)
    assert 0 <= share <= max(0.0, now.rate - fresh.rate)
    assert share <= lost(now, fresh, 0.5)
    if now.wrong * fresh.seen <= fresh.wrong * now.seen and now.seen == fresh.seen:
        assert share == 0  # no worse: nothing to gain


@given(answers, answers, st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_worth_grows_with_what_is_at_stake(
    now: Answers, fresh: Answers, value: float, more: float, cost: float
) -> None:
    low, high = (weigh(now, fresh, Stakes(value=v, horizon=100, cost=cost)) for v in (value, value + more))
    assert low.worth <= high.worth and low.update <= high.update


def test_without_drift_it_is_wrong_as_seldom_as_its_confidence_says() -> None:
    """The normal bound on a difference of beta posteriors holds, for 95 of 100 at least up to noise."""
    rng, wrong = np.random.default_rng(0), 0
    free = replace(STAKES, cost=0, confidence=0.95)
    for _ in range(4000):
        rate = rng.uniform(0.02, 0.5)
        now, fresh = (Answers(wrong=int(rng.binomial(200, rate)), seen=200) for _ in range(2))
        wrong += weigh(now, fresh, free).update
    assert wrong / 4000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


def test_an_update_that_did_not_help_is_not_repeated() -> None:
    before, now = Answers(wrong=10, seen=200), Answers(wrong=80, seen=200)
    assert weigh(now, before, STAKES).update
    assert not weigh(now, Answers(wrong=79, seen=200), STAKES).update


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Answers(wrong=3, seen=2), "3 wrong answers of 2"),
        (lambda: Answers(wrong=-1, seen=2), "-1 wrong"),
        (lambda: Stakes(value=math.nan, horizon=1, cost=1), "value is nan"),
        (lambda: Stakes(value=1, horizon=-1, cost=1), "horizon is -1"),
        (lambda: Stakes(value=1, horizon=1, cost=math.inf), "cost is inf"),
        (lambda: Stakes(value=1, horizon=1, cost=1, confidence=1.0), "confidence is 1.0"),
    ],
)
def test_bad_numbers_are_refused(make: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()  # type: ignore[operator]
