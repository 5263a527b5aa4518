"""Plans that must not be: what would break a limit, and what is no plan for its job."""

from __future__ import annotations

import math

from littoral.errors import Infeasible, InputError
from littoral.job import Job
from littoral.learning.task import Footprint
from littoral.planning import paces
from littoral.planning.plan import Plan, fairness
from littoral.planning.solving import PLANNERS, check_fairness
from littoral.units import show_duration

LONGEST_S = 100 * 365 * 86400.0  # a plan beyond a century is a slip of the pen


def refuse(job: Job, plan: Plan) -> None:
    """Raise ``Infeasible`` if the plan's prediction breaks a limit of the job, naming the one that binds."""
    for check in (_check_deadline, _check_cost, _check_fairness, _check_apps):
        check(job, plan)


def _check_deadline(job: Job, plan: Plan) -> None:
    limit, time_s = job.limits.deadline_s or LONGEST_S, plan.predicted.time_s
    if time_s > limit:
        term = max(plan.predicted.terms, key=lambda term: term.seconds)
        raise Infeasible(
            f"the deadline binds: {show_duration(limit)} allowed, {show_duration(time_s)} predicted, most of it "
            f"{term.name} ({show_duration(term.seconds)}: {term.formula})"
        )


def _check_cost(job: Job, plan: Plan) -> None:
    limit, usd = job.limits.cost_usd, plan.predicted.cost_usd
    if limit is not None and usd > limit:
        raise Infeasible(f"the budget binds: {limit:.4g} USD allowed, {usd:.4g} USD predicted")


def _check_fairness(job: Job, plan: Plan) -> None:
    if plan.planner not in PLANNERS:  # solvers are judged before, with the devices that they leave out
        check_fairness(job, plan.planner, fairness(plan))


def _check_apps(job: Job, plan: Plan) -> None:
    if job.profile is not None and plan.planner in PLANNERS:
        return  # measured latencies have decided who works
    for worker in plan.workers:
        device = job.continuum.device(worker.device)
        apps = job.continuum.apps_on(worker.device)
        for app in apps:
            latency = paces.app_latency(device, app, [other for other in apps if other is not app])
            if latency > app.deadline_s:
                raise Infeasible(
                    f"app {app.name!r} on device {worker.device!r} binds: with training and all else beside it it may "
                    f"take {show_duration(latency)}, its deadline is {show_duration(app.deadline_s)}; leave the device "
                    "out under 'workers'"
                )


def check_plan(plan: Plan, job: Job, footprint: Footprint) -> None:
    """Refuse a plan, from a file perhaps, that is not one for this job."""
    from littoral.strategies.strategy import make_strategy

    make_strategy(plan.strategy, plan.parameters)
    devices, stores = job.continuum.device_names, [store.name for store in job.continuum.stores]
    held = sorted({(server.start, server.stop) for server in plan.servers})
    ends = [0, *(stop for _, stop in held)], [*(start for start, _ in held), footprint.parameters + footprint.buffers]
    wrong = [f"device {name!r} is not in the continuum" for name in plan.device_of.values() if name not in devices]
    wrong += [f"worker {w.name!r} has batch {w.batch}" for w in plan.workers if not 1 <= w.batch <= w.shard]
    wrong += [f"worker {w.name!r} reduces {w.reduces}" for w in plan.workers if not 0 <= w.reduces < math.inf]
    wrong += [f"store {w.store!r} is not in the continuum" for w in plan.workers if w.store not in (None, *stores)]
    if plan.samples != footprint.samples:
        wrong.append(f"its shards sum to {plan.samples} samples, the task has {footprint.samples}")
    if held and ends[0] != ends[1]:
        wrong.append("its servers do not hold the vector between them")
    if wrong:
        raise InputError(f"not a plan for this job: {wrong[0]}", remedy="make one with 'littoral plan --save'")
