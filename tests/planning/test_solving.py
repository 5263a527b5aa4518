"""Solvers as planners of a job: their plans are plans like others, and what they promise is what is predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import here
from littoral.continuum.app import App
from littoral.errors import Infeasible, InputError
from littoral.job import Job, Limits, load_job
from littoral.learning.task import load_task
from littoral.planning import solving
from littoral.planning.described import DescribedPerformance
from littoral.planning.frontier import jain
from littoral.planning.instance import Scheme
from littoral.planning.plan import Plan
from littoral.planning.planner import _setting, make_front, make_plan
from littoral.planning.refusing import check_plan
from littoral.planning.room import room
from littoral.testing import simulate, small_continuum, small_job

EXAMPLES = Path(__file__).parents[2] / "examples"
SOLVERS = ["deepedge-paper", "deepedge", "exact", "search"]


def planned(job: Job, planner: str) -> Plan:
    task = load_task(job.task, job.task_options, job.recipe)
    return make_plan(replace(job, planner=planner), task.footprint(), task.recipe)


def served(name: str) -> Job:
    job = load_job(EXAMPLES / name / "job.yaml")
    return replace(job, strategy="parameter_server", parameters={"mode": "asp"}, batch=8)


@pytest.mark.parametrize("planner", SOLVERS)
def test_a_solvers_plan_is_a_plan_for_the_job_and_runs(planner: str) -> None:
    job = small_job(strategy="parameter_server", planner=planner)
    plan = planned(job, planner)
    check_plan(plan, job, load_task(job.task, job.task_options, {}).footprint())
    story = simulate(job, plan=plan)
    assert story.reason == "epochs" and story.contradictions() == []
    assert story.time_s == pytest.approx(plan.predicted.time_s, rel=0.25)


@pytest.mark.parametrize("name", ["edge-cluster", "micro-clouds", "fog-and-cloud"])
def test_search_is_predicted_to_be_no_slower(name: str) -> None:
    job = served(name)
    times = {planner: planned(job, planner).predicted.time_s for planner in ("fair", "deepedge", "search")}
    assert times["search"] <= 1.02 * min(times.values())  # each by the same formulas, which are not the search's own


def test_deadlines_decide_who_works() -> None:
    """An app whose deadline training would break keeps its device free; with nobody left, app and device are named."""
    continuum = small_continuum([100.0, 50.0])
    app = App(name="brake", on=("w-1",), period_s=1.0, deadline_s=0.25, work_s=0.2, demand=0.6)
    guarded = replace(continuum, apps=(app,))
    plan = planned(small_job(continuum=guarded, strategy="parameter_server"), "search")
    assert [worker.device for worker in plan.workers] == ["w-2"]
    with pytest.raises(Infeasible, match=r"'brake'.*'w-1'|'w-1'.*'brake'"):
        planned(replace(small_job(continuum=guarded, strategy="parameter_server"), workers=("w-1",)), "search")


@pytest.mark.parametrize(
    ("objective", "limits"),
    [
        ("makespan", Limits(cost_usd=0.002, fairness=0.6)),
        ("cost", Limits(deadline_s=150.0, fairness=0.9)),
        ("fairness", Limits(deadline_s=200.0, cost_usd=0.01)),
    ],
)
def test_two_wishes_are_limits_on_the_third(objective: str, limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []  # Jain's index of each scheme, over all devices with room

    def solve(job: Job, problem: solving.Problem) -> Scheme:
        scheme = search(job, problem)
        found.append(jain(scheme, room(problem.instance).nodes))
        return scheme

    search = solving.solve
    monkeypatch.setattr(solving, "solve", solve)
    job = replace(served("fog-and-cloud"), objective=objective, limits=limits)
    plan, free = planned(job, "search"), planned(replace(job, limits=Limits()), "search")
    assert len(found) == 2
    assert plan.predicted.time_s <= (limits.deadline_s or np.inf)
    assert plan.predicted.cost_usd <= (limits.cost_usd or np.inf)
    assert limits.fairness is None or found[0] >= limits.fairness
    assert (plan.predicted.time_s, plan.predicted.cost_usd) != (free.predicted.time_s, free.predicted.cost_usd)


def test_too_little_fairness_is_named_whoever_plans() -> None:
    """Planners that do not seek fairness may have it by chance; where they do not, search is named."""
    job = small_job(continuum=small_continuum([100.0, 20.0]), strategy="parameter_server")
    fair = replace(job, limits=Limits(fairness=0.8))
    with pytest.raises(Infeasible, match=r"fairness binds: 0\.69\d* with planner 'fair', the floor is 0.8; .*'search'"):
        planned(fair, "fair")  # burdens 1 and 5: 36 / (2 * 26)
    for planner in ("proportional", "auto", "deepedge", "exact", "search"):
        assert len(planned(fair, planner).workers) == 2
    app = App(name="brake", on=("w-1",), period_s=1.0, deadline_s=0.25, work_s=0.2, demand=0.6)
    alone = replace(fair, continuum=replace(fair.continuum, apps=(app,)))
    for planner in ("deepedge", "search"):
        assert len(planned(alone, planner).workers) == 1  # who has no room is not counted
    strict = replace(job, limits=Limits(fairness=1.0))
    for planner in ("deepedge", "exact"):
        with pytest.raises(Infeasible, match=rf"fairness binds: 0\.9\d* with planner '{planner}', the floor is 1"):
            planned(strict, planner)
    with pytest.raises(Infeasible, match=r"fairness binds: 0\.9\d* at best, the floor is 1"):
        planned(strict, "search")


def test_other_strategies_are_told_so() -> None:
    with pytest.raises(InputError, match="parameter server's workers"):
        planned(small_job(strategy="allreduce"), "search")


def test_the_front_goes_from_quick_to_cheap() -> None:
    job = served("fog-and-cloud")
    task = load_task(job.task, job.task_options, job.recipe)
    front = make_front(job, task.footprint(), task.recipe)
    assert len(front) > 2
    times, costs = ([getattr(plan.predicted, key) for plan, _ in front] for key in ("time_s", "cost_usd"))
    assert times == sorted(times) and min(costs) == 0.0 < costs[0]  # the free edge alone is slower than with the cloud
    for i, (one, fair) in enumerate(front):
        for j, (other, fairer) in enumerate(front):
            a, b = one.predicted, other.predicted
            assert i == j or b.time_s > a.time_s or b.cost_usd > a.cost_usd or fairer < fair


def test_one_of_the_front_can_be_picked_and_saved(tmp_path: Path) -> None:
    import subprocess
    import sys

    file = EXAMPLES / "fog-and-cloud" / "job.yaml"
    command = [sys.executable, "-m", "littoral", "plan", str(file), "--pick", "2", "--save", str(tmp_path / "p.json"),
               "--figure", str(tmp_path / "front.png")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "p.json").read_text())["planner"] == "search"
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
    beyond = here("plan", EXAMPLES / "edge-cluster" / "job.yaml", "--pick", "99", check=False)
    assert beyond.returncode == 2 and "on the front" in beyond.stderr


def test_a_description_says_the_same_for_one_and_for_many() -> None:
    job = served("micro-clouds")
    task = load_task(job.task, job.task_options, job.recipe)
    setting, devices = _setting(job, task.footprint()), job.continuum.device_names
    model = DescribedPerformance(setting, devices, devices[:1], task.footprint())
    nodes, batches = np.arange(len(devices)), np.full(len(devices), 8)
    together = model.update_seconds(nodes, np.stack([batches, 2 * batches]), (0,))
    assert together[0] == pytest.approx(model.update_seconds(nodes, batches, (0,)))
    assert together[1] == pytest.approx(model.update_seconds(nodes, 2 * batches, (0,)))
    crowd, alone = model.update_seconds(nodes, batches, (0,)), model.update_seconds(nodes[:2], batches[:2], (0,))
    assert (crowd[:2] >= alone).all()  # a port is shared
