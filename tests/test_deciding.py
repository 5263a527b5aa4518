"""Choosing a strategy: every applicable one is tried, the best for the objective is taken, and the plan says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from littoral.deciding import decide
from littoral.errors import Infeasible, InputError
from littoral.events import RunFinished
from littoral.job import Job, Limits, load_job
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.planning.prior import CANDIDATES, applicable
from littoral.strategies.strategy import REGISTRY, make_strategy
from littoral.testing import simulate, small_continuum, small_job

EXAMPLES = Path(__file__).parent.parent / "examples"


def decided(job: Job) -> Plan:
    return decide(job, load_task(job.task, job.task_options, job.recipe))


def auto(job: Job) -> Job:
    return replace(job, strategy="auto", parameters={}, planner="auto")


def test_candidates_are_real_strategies_with_real_settings() -> None:
    for candidate in CANDIDATES:
        make_strategy(candidate.strategy, candidate.parameters)
        assert 0 < candidate.efficiency <= 1
    assert {c.strategy for c in CANDIDATES} >= set(REGISTRY) - {"fedasync"}


def test_strategies_for_several_sites_are_left_out_at_a_single_one() -> None:
    one, two = applicable(["a"] * 4), applicable(["a", "a", "b", "b"])
    assert {c.strategy for c in two} - {c.strategy for c in one} == {"gaia"}
    assert not any(c.strategy == "dlion" for c in applicable(["a"] * 40))


def test_the_best_is_first_and_every_alternative_is_accounted_for() -> None:
    plan = decided(auto(small_job(continuum=small_continuum((100.0, 50.0, 5.0)))))
    assert len(plan.alternatives) == len(applicable(["lab"] * 3))
    times = [a.time_s / a.efficiency for a in plan.alternatives if a.time_s is not None]
    assert times == sorted(times)
    first = plan.alternatives[0]
    assert (plan.strategy, plan.parameters, plan.planner) == (first.strategy, first.parameters, first.planner)
    assert plan.reasons[0].startswith(f"{plan.strategy} is chosen for makespan")
    assert msgspec.convert(msgspec.to_builtins(plan), Plan) == plan


def test_slow_links_favour_strategies_that_talk_seldom() -> None:
    """Where an exchange takes as long as fifty steps, no strategy that exchanges whole models every step is chosen."""
    slow = decided(auto(small_job(continuum=small_continuum((100.0, 100.0, 100.0), bandwidth=500.0))))
    assert slow.strategy in ("local_sgd", "diloco", "fedavg", "fedbuff", "fedasync", "gaia", "dlion", "prague"), (
        slow.reasons
    )


def test_dear_devices_are_avoided_for_cost() -> None:
    continuum = small_continuum((100.0, 100.0))
    dear = tuple(replace(d, price_usd_per_s=1.0 if d.name == "hub" else 0.0) for d in continuum.devices)
    job = auto(small_job(continuum=replace(continuum, devices=dear)))
    cheap = decided(replace(job, objective="cost"))
    assert make_strategy(cheap.strategy, cheap.parameters).models != "served"  # which would rent the hub


def test_limits_refuse_alternatives_and_name_what_binds() -> None:
    job = auto(small_job())
    with pytest.raises(Infeasible, match="deadline binds"):
        decided(replace(job, limits=Limits(deadline_s=0.1)))
    times = sorted(a.time_s for a in decided(job).alternatives if a.time_s is not None)
    tight = decided(replace(job, limits=Limits(deadline_s=(times[0] + times[-1]) / 2)))
    refused = [a for a in tight.alternatives if a.refused]
    assert refused and all("deadline binds" in a.refused for a in refused)


def test_auto_takes_no_parameters() -> None:
    with pytest.raises(InputError, match="auto has no parameters"):
        decided(replace(small_job(), strategy="auto", parameters={"mode": "bsp"}))


@pytest.mark.parametrize("strategy", ["dpsgd", "local_sgd", "prague", "adpsgd", "fedavg"])
def test_a_rehearsal_foretells_the_whole_run(strategy: str) -> None:
    """From the first rounds only; the run it foretells is ten times longer."""
    job = small_job(strategy=strategy, epochs=20, workers=4)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = decide(job, task)
    took = next(e.t for e in simulate(job, timing_only=True).events if isinstance(e, RunFinished))
    assert plan.predicted.time_s == pytest.approx(took, rel=0.1)


def test_a_rehearsal_leaves_the_jobs_faults_out() -> None:
    job = load_job(EXAMPLES / "fog-and-cloud" / "job.yaml")
    job = replace(job, strategy="local_sgd", parameters={})
    task = load_task(job.task, job.task_options, job.recipe)
    assert job.faults
    assert decide(job, task).predicted == decide(replace(job, faults=()), task).predicted
