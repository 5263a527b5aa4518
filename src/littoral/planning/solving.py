"""Deep-Edge's scheduling problem of a job on a continuum, and its solvers' answers as workers and servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from littoral.errors import Infeasible
from littoral.job import Job
from littoral.learning.task import Footprint, Recipe
from littoral.planning import deepedge, paces
from littoral.planning.described import DescribedPerformance
from littoral.planning.exact import solve_exact
from littoral.planning.frontier import SLACK, jain, show_index
from littoral.planning.instance import Floats, Instance, Performance, Placement, Scheme
from littoral.planning.paces import Setting
from littoral.planning.placing import ranked_servers
from littoral.planning.plan import Prediction, Term, Worker
from littoral.planning.profiled import ProfiledPerformance, from_profile
from littoral.planning.room import room
from littoral.planning.search import Objective, search
from littoral.profiling.prior import SPREAD

LARGER = 4  # times the recipe's batch: beyond, steps grow less than batches
MOST_SERVERS = 3
TRIED = 4  # places of the first server
PLANNERS = ("deepedge-paper", "deepedge", "exact", "search")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A job's instance, and what its numbers stand for."""

    instance: Instance
    devices: tuple[str, ...]
    stores: tuple[str | None, ...]
    servers: tuple[str, ...]  # devices that placements count through

    def placed(self, scheme: Scheme) -> list[str]:
        """The devices of a scheme's servers."""
        return [self.servers[number] for number in self.instance.server_choices[scheme.servers]]


def problem_of(job: Job, setting: Setting, footprint: Footprint, recipe: Recipe, devices: Sequence[str]) -> Problem:
    """The scheduling problem of a job; without a profile the description is believed."""
    asked = job.parameters.get("servers")
    servers = tuple(ranked_servers(job, setting, devices, footprint, asked or 1)[: max(TRIED, asked or 0)])
    batch = job.batch or recipe.batch
    transfer_s, transfer_usd, start_s = _fetching(setting, devices)
    instance = Instance(
        names=tuple(devices), samples=footprint.samples, epochs=job.epochs, batch_most=LARGER * batch,
        performance=_performance(job, setting, footprint, devices, servers),
        apps=tuple(app.name for app in job.continuum.apps), deadlines=_deadlines(job, devices), start_s=start_s,
        transfer_s_per_sample=transfer_s, usd_per_sample=transfer_usd,
        usd_per_batch=2 * setting.width / 4 * setting.task.vector_bytes * _prices(setting, devices, servers[0]),
        server_choices=_placements(len(servers), asked),
        usd_per_s=np.array([job.continuum.device(name).price_usd_per_s for name in devices]),
        server_usd_per_s=np.array([job.continuum.device(name).price_usd_per_s for name in servers]),
    )  # fmt: skip
    stores: tuple[str | None, ...] = tuple(store.name for store in job.continuum.stores) or (None,)
    return Problem(instance=instance, devices=tuple(devices), stores=stores, servers=servers)


def _performance(
    job: Job, setting: Setting, footprint: Footprint, devices: Sequence[str], servers: Sequence[str]
) -> Performance:
    if job.profile is None:
        return DescribedPerformance(setting, devices, servers, footprint)
    return from_profile(job, devices, servers, footprint)


def solve(job: Job, problem: Problem) -> Scheme:
    """The answer of the job's planner. Only ``search`` seeks to keep limits; others may break the job's fairness."""
    match job.planner:
        case "deepedge-paper":
            return _fair_enough(job, problem, deepedge.solve_paper(problem.instance))
        case "deepedge":
            return _fair_enough(job, problem, deepedge.solve(problem.instance))
        case "exact":
            return _fair_enough(job, problem, solve_exact(problem.instance))
    limits = job.limits
    return search(
        problem.instance, cast(Objective, job.objective), time_limit_s=limits.deadline_s,
        cost_limit_usd=limits.cost_usd, fairness_floor=limits.fairness,
    )  # fmt: skip


def _fair_enough(job: Job, problem: Problem, scheme: Scheme) -> Scheme:
    """The scheme, if all devices with room carry their part of the burden; as ``search`` counts it."""
    if job.limits.fairness is not None:
        check_fairness(job, job.planner, jain(scheme, room(problem.instance).nodes))
    return scheme


def check_fairness(job: Job, planner: str, found: float) -> None:
    """Refuse a plan of a planner that does not seek fairness, if it has too little of it."""
    floor = job.limits.fairness
    if floor is not None and found * SLACK < floor:
        raise Infeasible(
            f"fairness binds: {show_index(found)} with planner {planner!r}, the floor is {floor:g}; planner 'search' "
            "(for strategy parameter_server) seeks a plan that keeps it"
        )


def workers_of(job: Job, problem: Problem, scheme: Scheme, setting: Setting) -> tuple[Worker, ...]:
    """A scheme's workers."""
    continuum, found = setting.continuum, []
    for number in scheme.workers:
        device, batch = problem.devices[number], scheme.batches[number]
        found.append(Worker(
            name=device, device=device, shard=scheme.shards[number], batch=batch,
            store=problem.stores[scheme.stores[number]], site=continuum.device(device).site,
            samples_per_s=batch / paces.step_seconds(setting, device, batch) if job.profile is None else
            1.0 / float(problem.instance.performance.compute_seconds(np.array([number]), np.array([batch]))[0]),
        ))  # fmt: skip
    return tuple(found)


def measured(problem: Problem, scheme: Scheme, described: Prediction) -> Prediction:
    """A prediction with the times and the cost that follow from a profile; bytes stay those of the description."""
    last = max(scheme.workers, key=scheme.busy_s.__getitem__)
    node, batch = np.array([last]), np.array([scheme.batches[last]])
    each = float(problem.instance.performance.compute_seconds(node, batch)[0])
    compute = each * scheme.shards[last] * problem.instance.epochs
    name, rest = problem.devices[last], scheme.total_s - compute
    terms = (
        Term(name="compute", seconds=compute, formula=f"samples of {name}, the last to finish, as profiled"),
        Term(name="exchange", seconds=rest, formula=f"updates of {name}, as profiled; transfer and start-up"),
    )
    return replace(described, time_s=scheme.total_s, epoch_s=scheme.epoch_s, cost_usd=scheme.cost_usd, terms=terms)


def guesses(problem: Problem, scheme: Scheme) -> tuple[str, ...]:
    """A reason to doubt a plan: workers of kinds that its profile does not have."""
    performance = problem.instance.performance
    if not isinstance(performance, ProfiledPerformance):
        return ()
    names = [problem.devices[number] for number in scheme.workers if not performance.is_measured(number)]
    doubt = f"not measured, guessed from the catalogue (may be off by a factor of {SPREAD:g}): {', '.join(names)}"
    return (doubt,) if names else ()


def _placements(count: int, asked: int | None) -> tuple[Placement, ...]:
    """One server at each place, or several side by side; as many as were asked for."""
    if asked:
        return (tuple(range(min(asked, count))),)
    single: list[Placement] = [(number,) for number in range(min(count, TRIED))]
    return (*single, *(tuple(range(size)) for size in range(2, min(MOST_SERVERS, count) + 1)))


def _fetching(setting: Setting, devices: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """Seconds and US dollars per sample from every store to every device, and seconds for the model."""
    stores = setting.continuum.stores
    if not stores:
        return np.zeros((1, len(devices))), np.zeros((1, len(devices))), np.zeros(len(devices))
    ways = [[setting.routes.between(store.name, device) for device in devices] for store in stores]
    each = np.array([[setting.sample_bytes / way.rate() for way in row] for row in ways])
    usd = np.array([[setting.sample_bytes * way.price_usd_per_byte for way in row] for row in ways])
    model = np.array([[way.seconds(setting.task.vector_bytes) for way in row] for row in ways])
    return each, usd, model.min(axis=0)


def _prices(setting: Setting, devices: Sequence[str], server: str) -> Floats:
    """US dollars per byte exchanged with a server, mean of both ways."""
    between = setting.routes.between
    return np.array(
        [(between(d, server).price_usd_per_byte + between(server, d).price_usd_per_byte) / 2 for d in devices]
    )


def _deadlines(job: Job, devices: Sequence[str]) -> Floats:
    table = np.full((len(devices), len(job.continuum.apps)), np.inf)
    for row, device in enumerate(devices):
        for column, app in enumerate(job.continuum.apps):
            if device in app.on:
                table[row, column] = app.deadline_s
    return table
