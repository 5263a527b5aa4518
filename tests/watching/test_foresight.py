"""A run's result carries what was foretold, and how far off that was once the end is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from littoral.events import Evaluated, NodeLost
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.run import Options, run_job
from littoral.supervisor import Supervisor
from littoral.testing import small_job
from littoral.watching.accuracy import AccuracyMonitor
from littoral.watching.foresight import account


def monitored(accuracies: list[float], target: float | None = None) -> AccuracyMonitor:
    monitor = AccuracyMonitor(most_epochs=20, target=target)
    for epoch, accuracy in enumerate(accuracies, start=1):
        monitor.add(epoch, accuracy)
    return monitor


def test_errors_are_relative_to_the_end() -> None:
    monitor = monitored([0.2, 0.4, 0.5, 0.6, 0.61], target=0.6)
    told = account(monitor, "target")
    assert (told["goal"], told["ended"]) == ("target", 5.0)
    assert [one["after"] for one in told["made"]] == [3.0, 4.0, 5.0]
    for one, forecast in zip(told["made"], monitor.forecasts[2:], strict=True):
        assert forecast is not None and one["epochs"] == forecast.epochs
        assert one["error"] == pytest.approx(forecast.epochs / 5 - 1)
    assert told["made"][-1]["error"] == 0
    assert told["error"] == pytest.approx(sum(abs(one["error"]) for one in told["made"]) / 3)
    inside = [one["low"] <= 5 <= one["high"] for one in told["made"]]
    assert [one["inside"] for one in told["made"]] == inside and told["inside"] == pytest.approx(sum(inside) / 3)


@pytest.mark.parametrize("reason", ["target", "w1 was lost", ""])
def test_an_end_that_nobody_knows_gives_no_error(reason: str) -> None:
    told = account(monitored([0.2, 0.4, 0.5, 0.55]), reason)
    assert (told["goal"], told["ended"], told["error"], told["inside"]) == ("plateau", None, None, None)
    assert [one["error"] for one in told["made"]] == [None, None]


def test_a_run_without_evaluations_foretells_nothing() -> None:
    told = account(AccuracyMonitor(most_epochs=5), "epochs")
    assert told["made"] == [] and told["ended"] is None


@pytest.mark.parametrize(("goal", "settings"), [("plateau", {"plateau": 0.01}), ("target", {"accuracy": 0.9})])
def test_a_finished_run_keeps_its_forecasts(goal: str, settings: dict[str, float], tmp_path: Path) -> None:
    job = replace(small_job(epochs=40), **settings)  # type: ignore[arg-type]
    result = run_job(job, tmp_path / "run", Options(reference=False))
    told = json.loads((tmp_path / "run" / "result.json").read_text())["forecasts"]
    assert told == result["forecasts"] and told["goal"] == goal
    assert result["reason"] == goal and told["ended"] == pytest.approx(result["epochs"], abs=0.5)
    assert told["made"] and all(3 * job.evaluate_every <= one["after"] <= one["epochs"] <= 40 for one in told["made"])
    assert told["made"][-1]["error"] == pytest.approx(told["made"][-1]["epochs"] / told["ended"] - 1)


def test_without_a_goal_nothing_is_foretold(tmp_path: Path) -> None:
    assert run_job(small_job(), tmp_path / "run", Options(reference=False))["forecasts"] is None


def test_a_run_that_fails_keeps_forecasts_without_errors() -> None:
    job = small_job(epochs=20)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    supervisor = Supervisor(plan, plateau=0.002, on_failure="stop")
    for epoch, accuracy in enumerate([0.2, 0.5, 0.6, 0.65], start=1):
        supervisor.handle(Evaluated(t=float(epoch), samples=epoch * plan.samples, accuracy=accuracy, loss=1.0))
    supervisor.handle(NodeLost(t=5.0, node=plan.workers[0].name, reason="gone"))
    told = supervisor.forecasts()
    assert told is not None and len(told["made"]) == 2 and told["error"] is None


def test_a_metric_that_is_no_share_is_no_curve() -> None:
    job = small_job(epochs=20)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    supervisor = Supervisor(plan, target=0.9)
    for epoch in range(1, 5):
        assert supervisor.handle(Evaluated(t=1.0, samples=epoch * plan.samples, accuracy=-3.0, loss=1.0)) == []
    told = supervisor.forecasts()
    assert told is not None and told["made"] == []
