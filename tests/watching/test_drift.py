"""Drift detectors: found soon, seldom for nothing, never for the better, and nothing odd let in."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.watching.drift import DETECTORS, Detector, detector

pytest.importorskip("river")
NAMES = sorted(DETECTORS)
QUICK = ["adwin", "page-hinkley"]


def errors(rates: list[tuple[float, int]], seed: int) -> list[float]:
    """Wrong (1) and right (0) answers: so many at each rate."""
    rng = np.random.default_rng(seed)
    return [float(wrong) for rate, count in rates for wrong in rng.random(count) < rate]


def alarms(watcher: Detector, values: list[float]) -> list[int]:
    return [step for step, value in enumerate(values) if watcher.see(value)]


# How many values after a step from 0.1 to 0.6 each test can need, by its own formula:
# ADWIN: epsilon_cut is under 0.4 once 45 values are new, and it looks every 32;
# Page-Hinkley: 50 / (0.5 - 0.005) = 101, and the mean so far moves by 0.5 n / (1000 + n) on the way;
# KSWIN: half of its 100 recent values are new after 50, which is a distance of 0.25 (p = 0.004).
LATEST = {"adwin": 77, "page-hinkley": 150, "kswin": 70}


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_found_within_what_the_test_promises(name: str) -> None:
    delays = []
    for seed in range(5):
        found = [step - 1000 for step in alarms(detector(name), errors([(0.1, 1000), (0.6, 400)], seed))]
        assert found and found[0] >= 0, f"seed {seed}: {found}"
        delays.append(found[0])
    assert np.median(delays) <= LATEST[name] and max(delays) <= 2 * LATEST[name], delays


def test_page_hinkley_takes_as_long_as_its_threshold_asks() -> None:
    values = [0.0] * 1000 + [1.0] * 400
    for threshold in (10.0, 40.0, 120.0):
        delay = alarms(detector("page-hinkley", threshold=threshold, alpha=1.0), values)[0] - 999
        assert threshold < delay <= threshold * 1.2  # the mean so far rises by up to a tenth meanwhile


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_adwin_is_rarely_wrong(rate: float) -> None:
    """Each look is a false alarm with a chance of at most delta: over all looks, at most three deviations more."""
    length, seeds, delta, clock = 5000, 30, 0.01, 32
    found = sum(len(alarms(detector("adwin", delta=delta), errors([(rate, length)], s))) for s in range(seeds))
    expected = delta * seeds * length / clock
    assert found <= expected + 3 * math.sqrt(expected)


@pytest.mark.parametrize(("rate", "threshold"), [(0.1, 20.0), (0.3, 30.0)])
def test_page_hinkley_is_as_rarely_wrong_as_its_formula_says(rate: float, threshold: float) -> None:
    """The time between alarms of a random walk with drift -delta over a threshold; three deviations allowed."""
    delta, variance, length, seeds = 0.005, rate * (1 - rate), 5000, 30
    steep = 2 * delta * threshold / variance
    apart = variance / (2 * delta**2) * (math.exp(steep) - 1 - steep)
    values = [errors([(rate, length)], seed) for seed in range(seeds)]
    found = sum(len(alarms(detector("page-hinkley", threshold=threshold), each)) for each in values)
    expected = seeds * length / apart
    assert 0 < found <= expected + 3 * math.sqrt(expected)
    assert sum(len(alarms(detector("page-hinkley", threshold=4 * threshold), each)) for each in values) < found / 4


def test_kswin_is_rarely_wrong() -> None:
    """Each value is a test with a chance of at most alpha; over all of them, three deviations more."""
    alpha, length, seeds = 0.001, 1500, 4
    found = sum(len(alarms(detector("kswin", alpha=alpha), errors([(0.2, length)], s))) for s in range(seeds))
    assert found <= alpha * seeds * length + 3 * math.sqrt(alpha * seeds * length)


@pytest.mark.parametrize("name", NAMES)
def test_better_is_no_alarm_unless_asked_for(name: str) -> None:
    for seed in range(3):
        values = errors([(0.6, 1000), (0.1, 1000)], seed)
        assert not alarms(detector(name), values)
        assert [step for step in alarms(detector(name, worse_only=False), values) if 1000 <= step < 1400]


@pytest.mark.parametrize("name", NAMES)
def test_worse_is_found_again_after_better(name: str) -> None:
    found = alarms(detector(name), errors([(0.6, 1000), (0.1, 1000), (0.6, 1000)], 0))
    assert found and 2000 <= found[0] < 2400


@pytest.mark.parametrize("name", QUICK)
@given(st.lists(st.floats(0, 1), max_size=300))
def test_what_only_falls_never_alarms(name: str, values: list[float]) -> None:
    watcher = detector(name)
    assert not alarms(watcher, sorted(values, reverse=True))


@pytest.mark.parametrize("name", QUICK)
@given(st.lists(st.sampled_from([0.0, 1.0]), max_size=400), st.integers(0, 400))
def test_same_values_same_alarms_and_a_reset_forgets(name: str, values: list[float], cut: int) -> None:
    given = {"threshold": 5.0} if name == "page-hinkley" else {}
    fresh, used = detector(name, **given), detector(name, **given)
    for value in values[:cut]:
        used.see(value)
    used.reset()
    for value in values:
        assert fresh.see(value) == used.see(value)
        assert fresh.level == used.level and math.isfinite(fresh.level)


def test_kswin_is_the_same_every_time() -> None:
    values = errors([(0.1, 500), (0.5, 300)], 1)
    assert alarms(detector("kswin", seed=3), values) == alarms(detector("kswin", seed=3), values)
    used = detector("kswin", seed=3)
    alarms(used, values[:600])
    used.reset()
    assert used.level == 0 and alarms(used, values) == alarms(detector("kswin", seed=3), values)


@pytest.mark.parametrize("name", NAMES)
def test_the_level_rises_to_one_at_the_alarm(name: str) -> None:
    """Far below one before the drift, at least one at the alarm, and never above without one for long."""
    watcher, levels, found = detector(name), [], []
    for step, value in enumerate(errors([(0.1, 1000), (0.7, 300)], 2)):
        found += [step] if watcher.see(value) else []
        levels.append(watcher.level)
    assert max(levels[500:900]) < 0.9
    assert found and all(levels[step] >= 1 for step in found)
    over = [step for step, level in enumerate(levels) if level >= 1]
    assert all(any(0 <= alarm - step <= 32 for alarm in found) for step in over)


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_constant(name: str) -> None:
    import pickle

    watcher, rng = detector(name), np.random.default_rng(0)
    sizes = []
    for _ in range(2):
        for _ in range(1500):
            watcher.see(float(rng.random() < 0.2))
        sizes.append(len(pickle.dumps([v for k, v in watcher.__dict__.items() if k != "_test" or name != "adwin"])))
    assert sizes[1] <= 1.05 * sizes[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_and_changes_nothing(name: str, value: float) -> None:
    watcher, other = detector(name), detector(name)
    for step in range(400):
        with pytest.raises(InputError, match="finite"):
            watcher.see(value)
        assert watcher.see(step > 300) == other.see(step > 300)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("adwim", {}, "unknown drift detector 'adwim'; did you mean 'adwin'?"),
        ("ddm-like-nothing", {}, "known: adwin, kswin, page-hinkley"),
        ("adwin", {"delt": 0.1}, "adwin has no setting 'delt'; did you mean 'delta'?"),
        ("adwin", {"threshold": 3}, "adwin has no setting 'threshold'"),
        ("adwin", {"delta": 0}, "delta is 0; give a number over 0 and under 1"),
        ("adwin", {"delta": "small"}, "delta is 'small'"),
        ("adwin", {"delta": True}, "delta is True"),
        ("adwin", {"delta": math.nan}, "delta is nan"),
        ("adwin", {"clock": 1.5}, "clock is 1.5; give a whole number of at least 1"),
        ("adwin", {"clock": 10**30}, "at most 1e"),
        ("page-hinkley", {"threshold": math.inf}, "threshold is inf"),
        ("page-hinkley", {"worse_only": 1}, "worse_only is 1; give true or false"),
        ("kswin", {"stat_size": 200}, "window_size is 300 with a stat_size of 200; give at least twice stat_size: 400"),
        ("kswin", {"seed": -1}, "seed is -1"),
    ],
)
def test_bad_settings_are_refused(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        detector(name, **given)
    assert said in str(caught.value)


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.data())
def test_what_is_accepted_works(name: str, data: st.DataObject) -> None:
    """Any setting is either refused with a reason or makes a detector that can be shown values."""
    known = [*DETECTORS[name].known, "worse_only"]
    odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    given = data.draw(st.dictionaries(st.sampled_from(known), odd, max_size=3))
    try:
        watcher = detector(name, **given)
    except InputError:
        return
    for step in range(40):
        watcher.see(float(step % 3 == 0))
    assert watcher.level >= 0


def test_without_river_the_install_line_is_given() -> None:
    code = """
import sys
sys.modules['river'] = None
from littoral.errors import MissingExtra
from littoral.watching.drift import detector
try:
    detector('adwin')
except MissingExtra as error:
    assert "pip install 'littoral[serve]'" in str(error), error
else:
    raise SystemExit('a detector without river?')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
