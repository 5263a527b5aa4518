"""Triggers: each fires for its own reason, never twice within the debounce, never while an update runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.manager.gate import Gate, Score
from littoral.manager.trigger_kinds import KINDS, check_settings
from littoral.manager.triggers import (
    DAY_S,
    Alarm,
    Cost,
    Debounce,
    Decision,
    Facts,
    Fire,
    Trigger,
    Wait,
    debounced,
    followed_up,
)

NOON = 20_000 * DAY_S + DAY_S / 2


def trigger(kind: str, **settings: Any) -> Trigger:
    made: Trigger = check_settings(kind, settings).make()
    return made


def told(one: Trigger, outcomes: str, facts: Facts = Facts(), now: float = NOON) -> Decision:
    """Right (1) and wrong (0) answers, then the question."""
    for outcome in outcomes:
        one.see(outcome == "1")
    return one.decide(now, facts)


def test_count_counts_labels_since_the_last_update() -> None:
    count = trigger("count", samples=10)
    assert count.decide(NOON, Facts(labelled=4)) == Wait("4 of 10 labels", 0.4)
    assert count.decide(NOON, Facts(labelled=10)) == Fire("10 of 10 labels", 1.0)


def test_a_schedule_is_due_after_its_time_and_once_for_many_that_were_missed() -> None:
    every = trigger("schedule", every_s=3600)
    facts = Facts(created=NOON)
    assert every.decide(NOON + 1800, facts) == Wait("due in 30 min", 0.5)
    assert isinstance(every.decide(NOON + 3600, facts), Fire)
    assert isinstance(every.decide(NOON + 30 * 3600, facts), Fire)
    assert isinstance(every.decide(NOON + 30 * 3600, replace(facts, last_began=NOON + 29.5 * 3600)), Wait)


def test_a_daily_schedule_is_due_at_its_hour() -> None:
    daily = trigger("schedule", at="03:30")
    facts = Facts(created=NOON)
    half_past_three = NOON + DAY_S / 2 + 3.5 * 3600
    assert isinstance(daily.decide(half_past_three - 1, facts), Wait)
    assert isinstance(daily.decide(half_past_three, facts), Fire)
    assert isinstance(daily.decide(half_past_three + 60, replace(facts, last_began=half_past_three)), Wait)
    early = trigger("schedule", at="03:30", every_s=3600)
    assert isinstance(early.decide(NOON + 3600, facts), Fire)


def test_accuracy_below_waits_for_a_full_window() -> None:
    assert told(trigger("accuracy-below", accuracy=0.8, window=10), "000000000") == Wait("9 of 10 predictions seen")
    assert isinstance(told(trigger("accuracy-below", accuracy=0.8, window=10), "0" * 9 + "1" * 8 + "00"), Wait)
    low = told(trigger("accuracy-below", accuracy=0.8, window=10), "1111111000")
    assert isinstance(low, Fire) and low.reason == "accuracy 0.7000 over the last 10 predictions, 0.8 wanted"
    assert low.level == pytest.approx(1.5)


@pytest.mark.parametrize("name", ["adwin", "page-hinkley", "kswin"])
def test_drift_alarms_and_stays_alarmed(name: str) -> None:
    good, bad = "1111111110" * 60, "0100010000" * 60
    calm = trigger("drift", detector=name)
    assert isinstance(told(calm, good), Wait)
    gathering = told(calm, bad[:200])
    assert isinstance(gathering, Wait) and "of 200 gathered since" in gathering.reason
    alarmed = told(calm, bad[200:])
    assert isinstance(alarmed, Fire) and name in alarmed.reason
    assert alarmed.since is not None and told(calm, good) == replace(alarmed, since=alarmed.since + len(good))
    again = trigger("drift", detector=name)
    assert told(again, good + bad) == alarmed  # told once more after a restart, it says the same


def test_expected_gain_weighs_what_is_lost_against_the_cost() -> None:
    settings = {"usd_per_point_day": 1.0, "horizon_s": 7 * DAY_S, "window": 100}
    facts = Facts(promoted=Score(accuracy=0.95, samples=400), cost=Cost(time_s=0, usd=50.0))
    worse = "1110" * 25
    assert isinstance(told(trigger("expected-gain", **settings), worse, facts), Fire)
    assert isinstance(told(trigger("expected-gain", **settings), "1" * 95 + "0" * 5, facts), Wait)
    dear = replace(facts, cost=Cost(time_s=0, usd=500.0))
    assert isinstance(told(trigger("expected-gain", **settings), worse, dear), Wait)
    little = told(trigger("expected-gain", **settings), "1110", facts)
    assert isinstance(little, Wait)  # four answers are no evidence
    cheap = replace(facts, cost=Cost(time_s=0, usd=0.001))
    for few in ("", "0", "1" * 99):  # just promoted
        young = told(trigger("expected-gain", **settings), few, cheap)
        assert young == Wait(f"{len(few)} of 100 predictions seen"), young
    vain = replace(facts, updates=10, promotions=0)
    fire, doubt = (told(trigger("expected-gain", **settings), worse, f) for f in (facts, vain))
    assert doubt.level == pytest.approx(fire.level * 2 / 12)
    hourly = trigger("expected-gain", **settings, usd_per_hour=3600.0)
    assert isinstance(told(hourly, worse, replace(facts, cost=Cost(time_s=600, usd=0))), Wait)


def test_expected_gain_without_a_score_compares_with_its_own_beginning() -> None:
    facts = Facts(cost=Cost(time_s=0, usd=1.0))
    gain = trigger("expected-gain", usd_per_point_day=1.0, window=50)
    assert told(gain, "1" * 49, facts).reason == "nothing to compare with yet"
    assert isinstance(told(gain, "1", facts), Wait)
    assert isinstance(told(gain, "0" * 25, facts), Fire)
    assert "not known" in told(gain, "0", Facts()).reason


def test_an_alarm_is_followed_up_when_the_training_window_is_new() -> None:
    calm, alarmed = Wait("no drift", 0.3), Fire("drift", since=20)
    early = Alarm(update=5, since=399, then=200, window=400)
    due = replace(early, since=400)
    told = "follow-up of update 5: 399 of 400 labels since its alarm"
    assert followed_up(calm, 1.0, early) == Wait(f"no drift; {told}", 0.3)
    assert followed_up(calm, 1.0, due) == Fire(told.replace("399", "400"), since=400, follows=5)
    assert isinstance(followed_up(calm, 1.5, due), Wait) and isinstance(followed_up(calm, 0.6, due), Fire)
    for nothing in (followed_up(calm, 0.0, due), followed_up(calm, 1.0, None)):
        assert nothing == calm  # switched off; no alarm
    assert followed_up(calm, 1.0, replace(due, then=400)) == calm  # an update has learned from all of it
    assert followed_up(alarmed, 1.0, due) == alarmed
    gathering = Wait("drift; 20 of 200 gathered since", 1.0)
    assert isinstance(followed_up(gathering, 1.0, due), Wait)  # the new alarm goes first


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("cuont", {"samples": 1}, "unknown trigger 'cuont'; did you mean 'count'"),
        ("count", {}, "missing required field `samples`"),
        ("count", {"samples": 0}, ">= 1"),
        ("count", {"samples": 5, "sample": 1}, "count: unknown key 'sample'; did you mean 'samples'"),
        ("schedule", {}, "every_s or at"),
        ("schedule", {"at": "25:00"}, "matching regex"),
        ("schedule", {"every_s": 0}, ">= 1"),
        ("accuracy-below", {"accuracy": 1.5}, "<= 1"),
        ("drift", {"detector": "adwim"}, "adwin"),
        ("drift", {"detector": "adwin", "settings": {"delta": -1}}, "delta"),
        ("expected-gain", {"usd_per_point_day": float("nan")}, "is nan; give a finite number"),
        ("count", {"samples": 5, "debounce_s": -1}, ">= 0"),
        ("drift", {"follow_up": -1}, ">= 0"),
        ("count", {"samples": 5, "follow_up": 1}, "count: unknown key 'follow_up'"),
    ],
)
def test_bad_settings_are_refused(kind: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_settings(kind, settings)


def test_the_gate_names_what_was_missing() -> None:
    gate = Gate(margin=0.02, least_samples=50, floor=0.6)
    good = Score(accuracy=0.9, samples=100)
    assert gate.judge(good, Score(accuracy=0.88, samples=100)).passed
    refused = [
        gate.judge(replace(good, samples=49), None), gate.judge(replace(good, accuracy=0.5), None),
        gate.judge(good, Score(accuracy=0.89, samples=100)),
    ]  # fmt: skip
    assert not any(verdict.passed for verdict in refused)
    for verdict, word in zip(refused, ("only 49", "floor of 0.6", "0.9100 were needed"), strict=True):
        assert word in verdict.reason
    with pytest.raises(ValueError, match="never holds"):
        Gate(window=10, least_samples=20)


# -- debouncing ---------------------------------------------------------------------------------------------------

moments = st.lists(
    st.tuples(st.floats(0, 500), st.booleans(), st.floats(0, 300), st.booleans()), min_size=1, max_size=60
)


@given(moments, st.floats(0, 1000), st.floats(0, 1000))
def test_never_two_within_the_debounce_and_never_while_one_runs(
    steps: list[tuple[float, bool, float, bool]], least_s: float, cool_down_s: float
) -> None:
    """A world that asks at random moments, with updates of random length that succeed or not."""
    debounce, now, facts = Debounce(least_s=least_s, cool_down_s=cool_down_s), 0.0, Facts()
    began: list[float] = []
    ends_at, will_pass, ended_badly = 0.0, True, None
    for pause, wants, lasts, passes in steps:
        now += pause
        if facts.updating and now >= ends_at:
            facts = replace(facts, updating=False, last_ended=ends_at, last_promoted=will_pass)
            ended_badly = None if will_pass else ends_at
        wish: Decision = Fire("because") if wants else Wait("no")
        decision = debounced(wish, debounce.hold(now, facts))
        if isinstance(decision, Fire):
            assert wants and not facts.updating
            assert not began or now - began[-1] >= least_s
            assert ended_badly is None or now - ended_badly >= cool_down_s
            began.append(now)
            ends_at, will_pass = now + lasts, passes
            facts = replace(facts, updating=True, last_began=now, last_ended=None)
        elif wants:
            assert "but" in decision.reason  # it says what holds it
    if any(wants for _, wants, _, _ in steps):
        assert began  # the first wish is never held


@given(st.sampled_from(sorted(KINDS)), st.text("01", max_size=60))
def test_asking_changes_nothing(kind: str, outcomes: str) -> None:
    needed = {"count": {"samples": 3}, "schedule": {"every_s": 60}, "accuracy-below": {"accuracy": 0.5, "window": 5},
              "expected-gain": {"usd_per_point_day": 1.0, "window": 5}}  # fmt: skip
    facts = Facts(labelled=len(outcomes), created=NOON - 90, cost=Cost(time_s=1, usd=1))
    silent, asked = (trigger(kind, **needed.get(kind, {})) for _ in range(2))
    for outcome in outcomes:
        told(asked, outcome, facts)
    assert told(silent, outcomes, facts) == asked.decide(NOON, facts)
