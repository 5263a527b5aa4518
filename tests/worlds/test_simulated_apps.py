"""Apps in virtual time that take as long as a profile has measured, with training beside them and without."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from seaside import whole, with_device

from littoral.continuum.app import App, Store
from littoral.continuum.signal import Constant
from littoral.errors import InputError
from littoral.events import AppChecked, DeadlineMissed, Fetched
from littoral.job import Fault, Job
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.profiling.automl import Budget
from littoral.profiling.estimators import estimators, fit
from littoral.profiling.profile import Profile, load, save
from littoral.profiling.rows import AppRow, State, TrainingRow
from littoral.rehearsal import rehearse
from littoral.run import Options, run_plan
from littoral.testing import Story, fail_at, simulate, small_continuum, small_job

KIND = "jetson-nano"
WORKLOAD = small_job().workload
CALM_S, BESIDE_S = 0.02, 0.06  # what the app takes on an idle device, and beside training
APP = App(name="sift", on=("w-1",), period_s=0.1, deadline_s=0.04, work_s=0.001, demand=0.01)


def measured(beside_s: float = BESIDE_S, noise: float = 0.05) -> Profile:
    """Training makes a device three quarters busy, and the app's latency rises with that in a straight line."""
    dice, training, apps = random.Random(0), [], []
    for point in range(40):
        cpu = 0.01 * (point % 4)
        before, during = State(cpu=cpu, memory=0.1, load=cpu), State(cpu=0.75, memory=0.25, load=0.75)
        for batch in (4, 8, 16):
            training.append(TrainingRow(
                point=point, device="d", kind=KIND, task=WORKLOAD, batch=batch, workers=1, batch_sum=batch,
                batch_max=batch, before=before, server=State(), compute_s=0.01, update_s=0.01, during=during, steps=20,
            ))  # fmt: skip
        busy = point / 40
        for _ in range(3):
            latency = (CALM_S + (beside_s - CALM_S) * busy / 0.75) * math.exp(dice.gauss(0, noise))
            state = State(cpu=busy, memory=0.1 + 0.2 * busy, load=busy)
            apps.append(AppRow(point=point, device="d", kind=KIND, app="sift", beside=0, state=state,
                               mean_s=latency, tail_s=1.2 * latency, deadline_s=0.1, periods=50))  # fmt: skip
    return fit(Profile(training=tuple(training), apps=tuple(apps)), budget=Budget(trials=2))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], str]:
    """Where a profile is in which the app takes so long beside training; each is fitted once."""
    known: dict[float, str] = {}

    def folder(beside_s: float = BESIDE_S) -> str:
        if beside_s not in known:
            known[beside_s] = str(tmp_path_factory.mktemp("profile"))
            save(measured(beside_s), Path(known[beside_s]))
        return known[beside_s]

    return folder


def job_with(profile: str | None, app: App = APP, **changes: object) -> Job:
    """Two workers and a hub, all of the measured kind."""
    continuum = small_continuum((100.0, 100.0))
    devices = tuple(replace(device, kind=KIND) for device in continuum.devices)
    job = small_job(continuum=replace(continuum, devices=devices, apps=(app,)), strategy="parameter_server", epochs=5)
    return replace(job, profile=profile, **changes)  # type: ignore[arg-type]


def plan_of(job: Job) -> Plan:
    """A plan that knows nothing of apps, nor of the profile."""
    free = replace(job, profile=None, faults=(), continuum=replace(job.continuum, apps=()))
    return simulate(free, timing_only=True).plan


def told(job: Job, seed: int = 0) -> Story:
    return simulate(job, plan=plan_of(job), seed=seed, timing_only=True)


def verdicts(story: Story) -> dict[str, AppChecked]:
    return {verdict.node: verdict for verdict in story.of(AppChecked)}


def test_latencies_are_the_measured_ones_with_training_and_without(kept: Callable[..., str]) -> None:
    everywhere = replace(APP, on=("w-1", "w-2", "hub"), deadline_s=0.1)
    found = verdicts(told(job_with(kept(), everywhere, epochs=20)))
    for worker in ("w-1", "w-2"):
        assert found[worker].mean_s == pytest.approx(BESIDE_S, rel=0.1)
    assert found["hub"].mean_s == pytest.approx(CALM_S, rel=0.1)  # it serves, and trains nothing
    assert found["w-1"].mean_s != found["w-2"].mean_s  # each draws for itself
    assert BESIDE_S < found["w-1"].worst_s < 2 * BESIDE_S


def test_training_that_makes_an_app_late_shows(kept: Callable[..., str]) -> None:
    late, fine = (verdicts(told(job_with(kept(beside_s))))["w-1"] for beside_s in (BESIDE_S, 0.025))
    assert late.violated > 0.9 * late.checked > 0
    assert fine.checked == late.checked and fine.violated == 0


def test_one_period_in_twenty_is_beyond_the_95th_percentile(kept: Callable[..., str]) -> None:
    job = job_with(kept(), epochs=60)
    known = estimators(load(Path(kept())), KIND, WORKLOAD)
    tail = known.tail_time("sift", known.after(State(memory=0.1), plan_of(job).workers[0].batch)).mean[0]
    verdict = verdicts(told(job_with(kept(), replace(APP, deadline_s=tail), epochs=60)))["w-1"]
    assert verdict.checked > 500 and verdict.violated / verdict.checked == pytest.approx(0.05, abs=0.025)


def test_a_result_counts_the_deadlines(kept: Callable[..., str], tmp_path: Path) -> None:
    job = job_with(kept())
    task = load_task(job.task, job.task_options, job.recipe)
    result = run_plan(job, task, plan_of(job), tmp_path / "run", Options(timing_only=True))
    (verdict,) = told(job).of(AppChecked)
    assert result["slo"] == {"checked": verdict.checked, "violated": verdict.violated}


def test_who_has_no_work_left_or_is_lost_is_calm_again(kept: Callable[..., str]) -> None:
    job = job_with(kept(), epochs=10)
    plan = plan_of(job)
    first, second = plan.workers
    uneven = replace(plan, workers=(replace(first, shard=40), replace(second, shard=200)))
    for story in (simulate(job, plan=uneven, timing_only=True), told(replace(job, faults=(fail_at("w-1", 4.0),)))):
        misses, (verdict,) = story.of(DeadlineMissed), story.of(AppChecked)
        assert whole(story) and misses and misses[-1].t < 0.6 * story.time_s
        assert len(misses) > 0.9 * misses[-1].t / APP.period_s and verdict.mean_s < 0.9 * BESIDE_S


def test_who_waits_for_data_does_not_train(kept: Callable[..., str]) -> None:
    job = with_device(job_with(kept()), "hub", uplink=Constant(2e3))
    story = told(replace(job, continuum=replace(job.continuum, stores=(Store(name="disk", site="lab", device="hub"),))))
    there = next(event.t for event in story.of(Fetched) if event.node == "w-1")
    assert there > 2.0 and story.of(DeadlineMissed)[0].t > there


def test_the_same_seed_draws_the_same(kept: Callable[..., str]) -> None:
    job = job_with(kept())
    assert told(job).events == told(job).events
    assert told(job).events != told(job, seed=1).events


def test_training_takes_as_long_as_described(kept: Callable[..., str]) -> None:
    """An app loads its device by its description, whatever its latencies are."""
    heavy = replace(APP, work_s=0.05, demand=0.8)
    known, described = (told(job_with(profile, heavy)) for profile in (kept(), None))
    assert known.time_s == pytest.approx(described.time_s, rel=0.02)
    assert verdicts(known)["w-1"].mean_s == pytest.approx(BESIDE_S, rel=0.1)
    assert verdicts(described)["w-1"].mean_s > 0.08  # 0.05 s, slowed by 1.8 while the worker computes


def test_without_a_profile_the_description_tells(kept: Callable[..., str]) -> None:
    (verdict,) = told(job_with(None)).of(AppChecked)
    assert verdict.mean_s == pytest.approx(0.001, rel=0.05) and verdict.violated == 0
    quiet = replace(job_with("/no/such/folder"), continuum=replace(job_with(None).continuum, apps=()))
    assert whole(told(quiet))  # nobody asks for it
    job = job_with("/no/such/folder")
    task = load_task(job.task, job.task_options, job.recipe)
    assert rehearse(job, task, plan_of(job)).predicted.time_s > 0  # nor does a rehearsal


def test_a_frame_that_takes_longer_than_a_period_drops_the_next(kept: Callable[..., str]) -> None:
    story = told(job_with(kept(), replace(APP, period_s=0.04)))
    dropped = [event for event in story.of(DeadlineMissed) if event.latency_s is None]
    assert len(dropped) == pytest.approx(verdicts(story)["w-1"].checked / 2, rel=0.1)


def test_faults_slow_and_stop_apps_too(kept: Callable[..., str]) -> None:
    app = replace(APP, on=("hub",), period_s=0.2)
    calm, slowed = job_with(kept(), app), Fault(at_s=0.0, kind="slow-device", node="hub", factor=0.25)
    assert verdicts(told(calm))["hub"].violated == 0
    late = verdicts(told(replace(calm, faults=(slowed,))))["hub"]
    assert late.mean_s == pytest.approx(4 * CALM_S, rel=0.1) and late.violated == late.checked
    stopped = told(replace(calm, faults=(Fault(at_s=2.0, kind="pause", node="hub", seconds=1.0),)))
    missed = stopped.of(DeadlineMissed)
    assert len(missed) == 5 and all(2.0 <= event.t <= 3.0 and event.latency_s is None for event in missed)


def test_what_was_not_measured_is_refused(kept: Callable[..., str], tmp_path: Path) -> None:
    job = job_with(kept())
    with pytest.raises(InputError, match=r"no model of app 'stitch' on jetson-nano") as refused:
        told(job_with(kept(), replace(APP, name="stitch")))
    assert refused.value.remedy and "sift" in refused.value.remedy
    with pytest.raises(InputError, match=r"nothing was measured on t4 with .*synthetic"):
        told(with_device(job, "w-1", kind="t4"))
    with pytest.raises(InputError, match=r"no model of app 'sift' on t4"):
        told(with_device(job_with(kept(), replace(APP, on=("hub",))), "hub", kind="t4"))
    placed = replace(job, profile=str(tmp_path), places={"profile": (tmp_path / "job.yaml", 7)})
    with pytest.raises(InputError, match="no such file"):
        told(placed)


def test_a_refusal_names_the_line_of_the_profile(kept: Callable[..., str], tmp_path: Path) -> None:
    job = job_with(kept(), replace(APP, name="stitch"), places={"profile": (tmp_path / "job.yaml", 7)})
    with pytest.raises(InputError, match=r"job.yaml:7: no model of app 'stitch'"):
        told(job)
