"""What to do for a job: plan the strategy it names, or find the one that should serve it best.

``strategy: auto`` makes a plan for every candidate of ``planning.prior``, finds out what each takes (by formula where
there is one, else by a rehearsal in virtual time), weighs that with what its samples should be worth, and takes the
best for the job's objective. The plan carries the table of the alternatives, with the reason where one was refused.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from littoral.errors import Infeasible, InputError
from littoral.job import Job
from littoral.learning.task import Task, load_task
from littoral.planning.cost import has_formula
from littoral.planning.plan import Alternative, Plan
from littoral.planning.planner import make_plan, merit
from littoral.planning.prior import Candidate, applicable
from littoral.planning.refusing import refuse
from littoral.planning.solving import PLANNERS as SOLVERS
from littoral.rehearsal import rehearse
from littoral.units import show_duration

Outcome = tuple[Candidate, Plan | str]  # a plan, or why there is none


def decide(job: Job, task: Task, *, parallel: bool = False) -> Plan:
    """The plan for a job; refuses what cannot be kept. ``parallel`` tries the candidates of ``auto`` on all cores."""
    return _choose(job, task, parallel) if job.strategy == "auto" else _planned(job, task)


def _planned(job: Job, task: Task) -> Plan:
    plan = make_plan(job, task.footprint(), task.recipe)
    if has_formula(plan) or (job.profile is not None and plan.planner in SOLVERS):
        return plan
    plan = rehearse(job, task, plan)
    refuse(job, plan)
    return plan


def _choose(job: Job, task: Task, parallel: bool) -> Plan:
    if job.parameters:
        raise InputError("auto has no parameters", remedy="name the strategy they are for", key="strategy")
    names = job.workers or job.continuum.device_names
    candidates = applicable([job.continuum.device(name).site for name in names])
    outcomes = _try_all(job, candidates, parallel)
    plans = [(candidate, plan) for candidate, plan in outcomes if isinstance(plan, Plan)]
    if not plans:
        raise Infeasible(next(str(reason) for _, reason in outcomes))
    plans.sort(key=lambda found: merit(job, found[1], found[0].efficiency))
    refused = [_refused(candidate, reason) for candidate, reason in outcomes if isinstance(reason, str)]
    best = plans[0][1]
    return replace(
        best,
        reasons=(_why(job, plans), *best.reasons),
        alternatives=(*(_alternative(candidate, plan) for candidate, plan in plans), *refused),
    )


def _try_all(job: Job, candidates: Iterable[Candidate], parallel: bool) -> list[Outcome]:
    cores = os.cpu_count() or 1
    if not parallel or cores == 1:
        return [_try(job, candidate) for candidate in candidates]
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(partial(_try, job), candidates))


def _try(job: Job, candidate: Candidate) -> Outcome:
    named = replace(job, strategy=candidate.strategy, parameters=candidate.parameters)
    try:
        return candidate, _planned(named, load_task(job.task, job.task_options, job.recipe))
    except Infeasible as refusal:
        return candidate, str(refusal)
    except InputError as refusal:
        if refusal.key != "strategy":
            raise
        return candidate, str(refusal)


def _alternative(candidate: Candidate, plan: Plan) -> Alternative:
    return Alternative(
        strategy=plan.strategy, parameters=dict(plan.parameters), planner=plan.planner, time_s=plan.predicted.time_s,
        wan_bytes=plan.predicted.wan_bytes, cost_usd=plan.predicted.cost_usd, efficiency=candidate.efficiency,
    )  # fmt: skip


def _refused(candidate: Candidate, reason: str) -> Alternative:
    return Alternative(
        strategy=candidate.strategy, parameters=candidate.parameters, efficiency=candidate.efficiency, refused=reason
    )


def _why(job: Job, plans: list[tuple[Candidate, Plan]]) -> str:
    (first, best), *others = plans
    text = f"{best.strategy} is chosen for {job.objective}: {_worth(first, best)}"
    return text + (f"; the next best is {others[0][1].strategy} with {_worth(*others[0])}" if others else "")


def _worth(candidate: Candidate, plan: Plan) -> str:
    seconds = plan.predicted.time_s
    if candidate.efficiency == 1.0:
        return show_duration(seconds)
    return f"{show_duration(seconds)} / {candidate.efficiency:g} = {show_duration(seconds / candidate.efficiency)}"
