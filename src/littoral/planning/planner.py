"""From a job to a plan: who works on how much with which batch, and what that should take.

``fair`` gives every worker the same shard and batch, as Hadoop-style schedulers do; ``proportional`` gives each what
it can do in the same time; ``auto`` takes whichever of these is predicted to be better for the job's objective. The
solvers of ``solving`` (``search``, ``deepedge``, ``deepedge-paper``, ``exact``) also choose who works at all, how many
servers there are and where, and keep the deadlines of background apps. A plan that
would break a limit is refused, and the limit that binds is named. The job names a strategy: to have one chosen, see
``littoral.deciding``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from littoral.continuum.routes import Routes
from littoral.document import suggest
from littoral.errors import Infeasible, InputError
from littoral.job import Job
from littoral.learning.task import Footprint, Recipe
from littoral.planning import cost, paces, sharing, solving, wiring
from littoral.planning.collective import DIRECT, strongest
from littoral.planning.frontier import jain
from littoral.planning.instance import Scheme, violations
from littoral.planning.paces import Setting
from littoral.planning.placing import cut_servers, placements
from littoral.planning.plan import Plan, Prediction, Server, Worker, fairness
from littoral.planning.refusing import refuse
from littoral.planning.search import pareto
from littoral.units import show_duration, show_rate

PLANNERS = ["fair", "proportional"]


def make_plan(job: Job, footprint: Footprint, recipe: Recipe) -> Plan:
    """The plan for a job; refuses what cannot be kept."""
    known = [*PLANNERS, *solving.PLANNERS, "auto"]
    if job.planner not in known:
        remedy = suggest(job.planner, known)
        raise InputError(f"unknown planner {job.planner!r}", remedy=remedy, key="planner")
    planners = PLANNERS if job.planner == "auto" else [job.planner]
    drafts: list[Plan] = []
    refusals: list[Infeasible] = []
    for planner in planners:
        try:
            draft = _draft(replace(job, planner=planner), footprint, recipe)
            refuse(job, draft)
            drafts.append(draft)
        except Infeasible as refusal:
            refusals.append(refusal)
    if not drafts:
        raise refusals[0]
    best = min(drafts, key=lambda plan: merit(job, plan))
    if len(planners) > 1:
        best = replace(best, reasons=(_choice(job, best, drafts), *best.reasons))
    return best


def merit(job: Job, plan: Plan, efficiency: float = 1.0) -> tuple[float, float]:
    """Smaller is better: what the job asks for first, then the time to learn as much.

    ``efficiency`` is what a sample is worth under the plan's strategy, beside one in synchronous training.
    """
    seconds = plan.predicted.time_s / efficiency
    if job.objective == "cost":
        return plan.predicted.cost_usd / efficiency, seconds
    return (-fairness(plan), seconds) if job.objective == "fairness" else (seconds, seconds)


def _choice(job: Job, best: Plan, drafts: Sequence[Plan]) -> str:
    others = ", ".join(
        f"{plan.strategy}/{plan.planner} {show_duration(plan.predicted.time_s)}" for plan in drafts if plan is not best
    )
    name = f"{best.strategy}/{best.planner} {show_duration(best.predicted.time_s)}"
    return f"chosen for {job.objective}: {name}; the alternatives: {others or 'none keeps the limits'}"


def _draft(job: Job, footprint: Footprint, recipe: Recipe) -> Plan:
    from littoral.strategies.strategy import make_strategy

    strategy: Any = make_strategy(job.strategy, job.parameters)
    setting, devices = _setting(job, footprint), eligible(job)
    _check_backups(strategy, devices)
    if job.planner in solving.PLANNERS:
        return _solved(job, setting, footprint, recipe, strategy, devices)
    if strategy.models == "served":
        ways = [(setting, servers) for servers in placements(job, setting, devices, footprint, strategy)]
    elif strategy.models == "own":
        ways = [(setting, ())]
    else:
        ways = [(replace(setting, reducing=weights), ()) for weights in _ownerships(job, setting, devices)]
    drafts = [_draft_with(job, fitted, footprint, recipe, strategy, devices, servers) for fitted, servers in ways]
    return min(drafts, key=lambda plan: plan.predicted.time_s)


def _setting(job: Job, footprint: Footprint) -> Setting:
    return Setting(
        continuum=job.continuum, routes=Routes(job.continuum), task=footprint, sample_bytes=footprint.sample_bytes,
        epochs=job.epochs, width=2 if job.wire == "float16" else 4,
    )  # fmt: skip


def _solved(
    job: Job, setting: Setting, footprint: Footprint, recipe: Recipe, strategy: Any, devices: Sequence[str]
) -> Plan:
    problem = _problem(job, setting, footprint, recipe, strategy, devices)
    scheme = solving.solve(job, problem)
    wrong = violations(problem.instance, scheme)
    if wrong:
        raise Infeasible(f"{job.planner}: {wrong[0]}")
    return _plan_of(job, setting, footprint, strategy, problem, scheme)


def _problem(
    job: Job, setting: Setting, footprint: Footprint, recipe: Recipe, strategy: Any, devices: Sequence[str]
) -> solving.Problem:
    if strategy.name != "parameter_server" or job.split == "by-store":
        remedy = "use planner proportional, or strategy parameter_server and data that may move"
        raise InputError(f"planner {job.planner!r} divides data between a parameter server's workers", remedy=remedy,
                         key="planner")  # fmt: skip
    return solving.problem_of(job, setting, footprint, recipe, devices)


def _plan_of(
    job: Job, setting: Setting, footprint: Footprint, strategy: Any, problem: solving.Problem, scheme: Scheme
) -> Plan:
    places = problem.placed(scheme)
    servers, workers = cut_servers(footprint, len(places), places), solving.workers_of(job, problem, scheme, setting)
    used = replace(setting, handling=paces.handling_seconds(setting, [w.device for w in workers], servers))
    changed = {} if len(places) == strategy.servers else {"servers": len(places)}
    predicted = _predict(used, workers, servers, strategy)
    if job.profile is not None:
        predicted = solving.measured(problem, scheme, predicted)
    return Plan(
        planner=job.planner, strategy=job.strategy, parameters={**job.parameters, **changed}, workers=workers,
        servers=servers, epochs=job.epochs, split=job.split, alpha=job.alpha, wire=job.wire,
        predicted=predicted, rates=wiring.rates(used, (*workers, *servers), strategy),
        reasons=(*scheme.reasons, *solving.guesses(problem, scheme), *_reasons(used, workers, servers)),
    )  # fmt: skip


def make_front(job: Job, footprint: Footprint, recipe: Recipe) -> list[tuple[Plan, float]]:
    """Plans with their fairness over all that may work; none is better in time, cost and fairness than another."""
    from littoral.strategies.strategy import make_strategy

    strategy: Any = make_strategy(job.strategy, job.parameters)
    job, setting, devices = replace(job, planner="search"), _setting(job, footprint), eligible(job)
    problem = _problem(job, setting, footprint, recipe, strategy, devices)
    schemes, nodes = pareto(problem.instance), problem.instance.nodes
    found = [(_plan_of(job, setting, footprint, strategy, problem, one), jain(one, nodes)) for one in schemes]
    scores = [(plan.predicted.time_s, plan.predicted.cost_usd, -fair) for plan, fair in found]
    best = [one for one, mine in zip(found, scores, strict=True) if not any(_better(other, mine) for other in scores)]
    return sorted(best, key=lambda one: one[0].predicted.time_s)


def _better(one: Sequence[float], other: Sequence[float]) -> bool:
    """In something, and worse in nothing; a thousandth is nothing."""
    slack = [1e-3 * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True)]
    pairs = list(zip(one, other, slack, strict=True))
    return all(a <= b + s for a, b, s in pairs) and any(a < b - s for a, b, s in pairs)


def _ownerships(job: Job, setting: Setting, devices: Sequence[str]) -> list[dict[str, float]]:
    """Who may well own the vector's parts in an all-reduce: all alike first, then the few that are strongest.

    Strong is whom messages cost least, or whose ways to the others are fastest.
    """
    n = len(devices)
    found = [dict.fromkeys(devices, 1.0)]
    if job.planner == "fair" or not 2 < n <= DIRECT:
        return found
    ways = {a: [setting.routes.between(*pair) for b in devices if b != a for pair in ((a, b), (b, a))] for a in devices}
    quick = sorted(devices, key=lambda device: paces.step_seconds(setting, device, 1))
    near = sorted(devices, key=lambda device: -min(way.rate() for way in ways[device]))
    for ranked in (quick, near):
        for weights in (strongest(ranked, count) for count in range(n - 1, 0, -1)):
            if weights not in found:
                found.append(weights)
    return found


def _draft_with(
    job: Job, setting: Setting, footprint: Footprint, recipe: Recipe, strategy: Any, devices: Sequence[str],
    servers: tuple[Server, ...],
) -> Plan:  # fmt: skip
    continuum, routes = setting.continuum, setting.routes
    bare, setting = setting, replace(setting, handling=paces.handling_seconds(setting, devices, servers))
    limits = [sharing.largest_batch(continuum, device, footprint) for device in devices]
    in_step = math.isfinite(strategy.limit)  # workers wait for each other
    every_step = servers if strategy.name == "parameter_server" else ()  # whom a step exchanges something with
    ahead = getattr(strategy, "ahead", 0)
    if strategy.models == "own" and not in_step and job.planner != "fair":
        # Models that are averaged alike had better come from equal steps: the quick take more of them.
        batches = sharing.batches_of(replace(job, planner="fair"), setting, devices, (), limits, recipe)
        weights = [batch / paces.step_seconds(setting, d, batch) for d, batch in zip(devices, batches, strict=True)]
    else:
        batches = sharing.batches_of(job, setting, devices, every_step if in_step else (), limits, recipe)
        weights = sharing.weights_of(job, setting, devices, batches, () if in_step else every_step, ahead)
    stores = sharing.stores_of(continuum, routes, devices)
    shards = sharing.shards_of(job, footprint, weights, stores)
    workers = tuple(
        Worker(name=device, device=device, shard=shard, batch=min(batch, max(shard, 1)), store=store,
               samples_per_s=batch / paces.step_seconds(bare, device, batch),
               reduces=setting.reducing.get(device, 1.0), site=continuum.device(device).site)
        for device, shard, batch, store in zip(devices, shards, batches, stores, strict=True) if shard
    )  # fmt: skip
    predicted = _predict(setting, workers, servers, strategy)
    return Plan(
        planner=job.planner, strategy=job.strategy, parameters=dict(job.parameters), workers=workers, servers=servers,
        epochs=job.epochs, split=job.split, alpha=job.alpha, wire=job.wire, predicted=predicted,
        reasons=_reasons(setting, workers, servers), topology=wiring.wire(setting, workers, strategy, job.seed),
        rates=wiring.rates(setting, (*workers, *servers), strategy),
    )  # fmt: skip


def _check_backups(strategy: Any, devices: Sequence[str]) -> None:
    backups = getattr(strategy, "backups", 0)
    if backups >= len(devices):
        remedy = f"give fewer backups than workers ({len(devices)})"
        raise InputError(f"{backups} backups", remedy=remedy, key="strategy")


def eligible(job: Job) -> tuple[str, ...]:
    """Devices that may work: those named; else all that neither serve nor only store by the job's word."""
    if job.workers:
        return job.workers
    stores = {store.device for store in job.continuum.stores if store.device}
    devices = tuple(d for d in job.continuum.device_names if d not in job.servers and d not in stores)
    if not devices:
        raise Infeasible("no device is left to work: all of them serve or store; name some under 'workers'")
    return devices


def _predict(setting: Setting, workers: tuple[Worker, ...], servers: tuple[Server, ...], strategy: Any) -> Prediction:
    match strategy.name:
        case "parameter_server" if strategy.codec == "none":
            return cost.predict_servers(setting, workers, servers, strategy.limit, strategy.ahead)
        case "allreduce":
            return cost.predict_allreduce(setting, workers)
    return cost.predict_compute(setting, workers, servers)


def _reasons(setting: Setting, workers: Sequence[Worker], servers: Sequence[Server]) -> tuple[str, ...]:
    times = {w.name: paces.step_seconds(setting, w.device, w.batch) for w in workers}
    slow, quick = max(times, key=times.__getitem__), min(times, key=times.__getitem__)
    reasons = [f"a step takes from {show_duration(times[quick])} ({quick}) to {show_duration(times[slow])} ({slow})"]
    owners = [worker.name for worker in workers if worker.reduces]
    if not servers and len(owners) < len(workers):
        rest = ", ".join(worker.name for worker in workers if not worker.reduces)
        reasons.append(f"{', '.join(owners)} compute the means; {rest} would lose more by it than the others gain")
    for server in servers:
        rates = [setting.routes.between(worker.device, server.device).rate() for worker in workers]
        finite = [rate for rate in rates if math.isfinite(rate)]
        slowest = f"; the slowest worker reaches it at {show_rate(min(finite))}" if finite else ""
        reasons.append(
            f"{server.name} is on {server.device}, of the places tried the one with the shortest prediction{slowest}"
        )
    return tuple(reasons)
