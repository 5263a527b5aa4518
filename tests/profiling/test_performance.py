"""A profile as solvers ask it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import here
from littoral.continuum.app import App
from littoral.errors import InputError
from littoral.job import Job, job_document, load_job
from littoral.learning.task import load_task
from littoral.planning import profiled
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.planning.profiled import ProfiledPerformance
from littoral.profiling.estimators import Estimate, Estimators
from littoral.profiling.features import Company, Floats, States
from littoral.profiling.profile import Key, Profile, save
from littoral.profiling.rows import State
from littoral.testing import small_continuum, small_job

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_profile_is_asked_by_kind(nano: Estimators) -> None:
    calm, busy = State(cpu=0.2, memory=0.3), State(cpu=0.8, memory=0.3)
    model = ProfiledPerformance(
        {"jetson-nano": nano}, ["jetson-nano"] * 3, [calm, busy, calm], [calm], [("sift", frozenset({0, 1}))]
    )
    nodes, batches = np.arange(3), np.array([8, 8, 32])
    each = model.compute_seconds(nodes, batches)
    assert each[0] == pytest.approx(nano.compute_time(calm, 8).mean[0]) and each[1] > each[0] > each[2]
    late = model.latencies(nodes, batches)
    assert late[1, 0] > 0 and np.isnan(late[2, 0])
    rows = model.update_seconds(nodes, np.stack([batches, batches]), (0,))
    assert rows.shape == (2, 3) and rows[0] == pytest.approx(model.update_seconds(nodes, batches, (0,)))
    assert (model.largest_batch(nodes) >= 1).all()


def test_answers_kept_for_few_nodes_are_those_for_many(nano: Estimators) -> None:
    states = [State(cpu=0.2, memory=0.3), State(cpu=0.8, memory=0.3)]
    few, many = (
        ProfiledPerformance({"jetson-nano": nano}, ["jetson-nano"] * n, states * (n // 2), states[:1],
                            [("sift", frozenset({0}))])
        for n in (2, 2**16)
    )  # fmt: skip
    nodes, batches = np.array([0, 1, 0, 1]), np.array([1, 7, 32, 8.0])
    assert few.compute_seconds(nodes, batches) == pytest.approx(many.compute_seconds(nodes, batches))
    assert few.latencies(nodes, batches) == pytest.approx(many.latencies(nodes, batches), nan_ok=True)
    beyond = np.full(4, 10_000)  # larger than anything measured
    assert few.compute_seconds(nodes, beyond) == pytest.approx(many.compute_seconds(nodes, beyond))


def test_updates_of_many_states_are_those_of_states_alike(nano: Estimators, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, n = np.random.default_rng(4), 300
    states = [State(cpu=cpu, memory=0.3, load=load) for cpu, load in dice.uniform(0.0, 0.8, (n, 2)).tolist()]
    nodes = dice.permutation(n)[:200]
    batches = dice.choice([4, 8, 32], 200)
    many, exact = (
        ProfiledPerformance({"jetson-nano": nano}, ["jetson-nano"] * n, states, states[:1]) for _ in range(2)
    )
    near = many.update_seconds(nodes, batches, (0,))
    monkeypatch.setattr(profiled, "TYPICAL", n)
    true = exact.update_seconds(nodes, batches, (0,))
    one = nano.update_time(states[nodes[0]], int(batches[0]), states[0], Company.of(batches.tolist()), level=None)
    assert true[0] == pytest.approx(one.mean[0]) and len(np.unique(near)) < len(np.unique(true))
    assert np.abs(near / true - 1).mean() < 0.02


def test_nodes_in_one_state_are_foretold_once(nano: Estimators, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [State(cpu=0.2, memory=0.3), State(cpu=0.8, memory=0.3)] * 500
    model = ProfiledPerformance({"jetson-nano": nano}, ["jetson-nano"] * 1000, states, states[:1])
    asked, real = list[int](), nano.compute_time

    def counted(before: States, batch: Floats, *, level: float | None) -> Estimate:
        asked.append(len(batch))
        return real(before, batch, level=level)

    monkeypatch.setattr(nano, "compute_time", counted)
    times = model.compute_seconds(np.arange(1000), np.full(1000, 8))
    assert asked == [2] and len(np.unique(times)) == 2


def nanos(folder: Path, *, deadline_s: float = 10.0) -> Job:
    """Two nanos as the profile knows them, beside its app, and a hub."""
    continuum = small_continuum([100.0, 100.0])
    devices = tuple(replace(d, kind="jetson-nano") if d.name != "hub" else d for d in continuum.devices)
    app = App(name="sift", on=("w-1",), period_s=10.0, deadline_s=deadline_s, work_s=0.01)
    job = small_job(continuum=replace(continuum, devices=devices, apps=(app,)), strategy="parameter_server")
    return replace(job, planner="search", profile=str(folder), task="littoral.tasks.digits", task_options={})


@pytest.fixture
def folder(fitted: Profile, tmp_path: Path) -> Path:
    """The synthetic profile, of a task that can be loaded."""
    task = "littoral.tasks.digits"
    rows = tuple(replace(row, task=task) for row in fitted.training)
    choices = {Key(key.kind, task if key.task else "", key.function): one for key, one in fitted.choices.items()}
    save(Profile(training=rows, apps=fitted.apps, choices=choices), tmp_path / "profile")
    return tmp_path / "profile"


def planned(job: Job) -> Plan:
    task = load_task(job.task, job.task_options, job.recipe)
    return make_plan(job, task.footprint(), task.recipe)


def test_a_job_is_planned_from_its_profile(folder: Path, fitted: Profile) -> None:
    plan = planned(nanos(folder))
    assert {worker.device for worker in plan.workers} == {"w-1", "w-2"}
    measured = [row.compute_s for row in fitted.training]
    assert all(1 / max(measured) < worker.samples_per_s < 1 / min(measured) for worker in plan.workers)
    assert [term.name for term in plan.predicted.terms] == ["compute", "exchange"]
    assert sum(term.seconds for term in plan.predicted.terms) == pytest.approx(plan.predicted.time_s)
    described = planned(replace(nanos(folder), profile=None))
    assert described.predicted.time_s != pytest.approx(plan.predicted.time_s, rel=0.05)


def test_measured_latencies_decide_who_works(folder: Path, fitted: Profile) -> None:
    least = min(row.tail_s for row in fitted.apps)
    plan = planned(nanos(folder, deadline_s=least / 2))
    assert {worker.device for worker in plan.workers} == {"w-2"}  # the app is on the other


def test_what_was_not_measured_is_refused_where_the_job_names_the_profile(folder: Path, tmp_path: Path) -> None:
    job = nanos(folder)
    stranger = replace(job.continuum, apps=(replace(job.continuum.apps[0], name="stitch"),))
    with pytest.raises(InputError, match="no model of app 'stitch'") as refused:
        planned(replace(job, continuum=stranger))
    assert refused.value.key == "profile"
    with pytest.raises(InputError, match="nothing was measured"):
        planned(replace(job, task="littoral.tasks.synthetic", task_options={"samples": 64}))
    with pytest.raises(InputError, match="no such file"):
        planned(replace(job, profile=str(tmp_path / "nowhere")))


def test_a_kind_that_was_not_measured_is_guessed_if_the_job_says_so(folder: Path) -> None:
    job = replace(nanos(folder), unmeasured="guess")
    devices = tuple(replace(d, kind="jetson-tx2") if d.name == "w-2" else d for d in job.continuum.devices)
    job = replace(job, continuum=replace(job.continuum, devices=devices))
    plan = planned(job)
    assert any("guessed from the catalogue" in reason and reason.endswith(": w-2") for reason in plan.reasons)
    assert not any("guessed" in reason for reason in planned(nanos(folder)).reasons)
    with pytest.raises(InputError, match="nothing was measured on jetson-tx2"):
        planned(replace(job, unmeasured="refuse"))
    crowded = replace(job.continuum, apps=(replace(job.continuum.apps[0], on=("w-2",)),))
    with pytest.raises(InputError, match="no model of app 'sift' on jetson-tx2"):
        planned(replace(job, continuum=crowded))


def test_a_guess_needs_a_profile(tmp_path: Path) -> None:
    example = EXAMPLES / "three-cameras"
    (tmp_path / "continuum.yaml").write_text((example / "continuum.yaml").read_text())
    (tmp_path / "job.yaml").write_text((example / "job.yaml").read_text() + "unmeasured: guess\n")
    with pytest.raises(InputError, match="guess without a profile"):
        load_job(tmp_path / "job.yaml")


def test_a_profile_is_found_beside_the_job_file(tmp_path: Path) -> None:
    example = EXAMPLES / "three-cameras"
    (tmp_path / "continuum.yaml").write_text((example / "continuum.yaml").read_text())
    (tmp_path / "job.yaml").write_text((example / "job.yaml").read_text() + "profile: measured\n")
    job = load_job(tmp_path / "job.yaml")
    assert job.profile == str(tmp_path / "measured") and job_document(job)["profile"] == job.profile
    done = here("plan", tmp_path / "job.yaml", check=False)
    assert done.returncode == 2 and "measured" in done.stderr and "no such file" in done.stderr
