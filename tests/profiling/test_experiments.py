"""Random experiments on a profile: nobody beats the optimum, ours is never slower than Deep-Edge's, rules are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from littoral.errors import InputError
from littoral.experiments import SAMPLES, SOLVERS, Outcome, Setting, experiments, instance_of, setting_of, solvers
from littoral.profiling.profile import Profile

KIND = "jetson-nano"


@pytest.fixture(scope="module")
def setting(fitted: Profile) -> Setting:
    return setting_of(fitted, deadline_s=0.09, seed=5)


@pytest.fixture(scope="module")
def outcomes(setting: Setting) -> list[Outcome]:
    return list(experiments(setting, 3))


def test_better_solvers_are_never_slower(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.epoch_s.keys() == SOLVERS.keys() and outcome.kinds == (KIND,) * 4
        assert outcome.epoch_s["exact"] <= outcome.epoch_s["search"] * (1 + 1e-9)
        assert outcome.epoch_s["search"] <= outcome.epoch_s["deepedge"] * (1 + 1e-9)
        assert not any(outcome.broken[name] for name in ("deepedge", "search", "exact"))
    assert np.isfinite([outcome.epoch_s["exact"] for outcome in outcomes]).any()


@pytest.mark.long
def test_several_processes_find_the_same(setting: Setting, outcomes: list[Outcome]) -> None:
    assert list(experiments(replace(setting, known={}), 2, jobs=2)) == outcomes[:2]


def test_nobody_is_late_before_training(setting: Setting) -> None:
    instance = instance_of(setting, np.random.default_rng(1))
    assert instance.samples == SAMPLES and (instance.deadlines == setting.deadline_s).all()
    one = setting.estimators(KIND)
    states = [row.before for row in setting.profile.training]
    assert (one.longest_time("sift", states) > setting.deadline_s).any()  # or the test would say nothing
    other = instance_of(setting, np.random.default_rng(2))
    batches = np.full(4, 8)
    first, second = (each.performance.compute_seconds(np.arange(4), batches) for each in (instance, other))
    assert not np.allclose(first, second)


def test_equal_shards_have_a_batch_that_everybody_has_room_for(setting: Setting) -> None:
    instance = replace(instance_of(setting, np.random.default_rng(1)), batch_most=10**6)
    room = instance.performance.largest_batch(np.arange(4))
    assert set(SOLVERS["fair"](instance).batches) == {int(room.min())}


def test_equal_shards_also_have_the_jobs_batch(setting: Setting) -> None:
    instance = replace(instance_of(setting, np.random.default_rng(1)), ladder=(1, 2, 4, 8, 16, 32), batch_most=32)
    scheme = SOLVERS["fair, job's batch"](instance)
    assert set(scheme.batches) == {8} and max(scheme.shards) - min(scheme.shards) <= 1
    assert set(solvers(2)["fair, job's batch"](instance).batches) == {2}  # where that is known


def test_rows_of_another_task_play_no_part(fitted: Profile, setting: Setting) -> None:
    other = tuple(replace(row, task="another", batch=512) for row in fitted.training[:1])
    both = setting_of(replace(fitted, training=(*fitted.training, *other)), deadline_s=0.09, seed=5)
    assert both.task == fitted.training[0].task and both.rows() == list(fitted.training)
    assert instance_of(both, np.random.default_rng(1)).ladder == instance_of(setting, np.random.default_rng(1)).ladder


def test_the_deadline_is_the_measured_one(fitted: Profile) -> None:
    assert setting_of(fitted).deadline_s == fitted.apps[0].deadline_s == 0.2


def test_what_cannot_be_tried_is_refused(fitted: Profile, setting: Setting) -> None:
    with pytest.raises(InputError, match="nothing was measured on nana"):
        setting_of(fitted, kinds=["nana"])
    other = tuple(replace(row, kind="shelf", task="another") for row in fitted.training[:1])
    with pytest.raises(InputError, match=f"no task was measured on all of {KIND}, shelf"):
        setting_of(replace(fitted, training=(*fitted.training, *other)), kinds=[KIND, "shelf"])
    with pytest.raises(InputError, match="has no app"):
        setting_of(replace(fitted, apps=()))
    with pytest.raises(InputError, match="lets sift keep 1e-05 s"):
        instance_of(replace(setting, deadline_s=1e-5), np.random.default_rng(0))
