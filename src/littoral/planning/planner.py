"""From a job to a plan: who works on how much with which batch, and what that should take.

``fair`` gives every worker the same shard and batch, as Hadoop-style schedulers do; ``proportional`` gives each what
it can do in the same time; ``auto`` takes whichever is predicted to be better for the job's objective. A plan that
would break a limit is refused, and the limit that binds is named. The job names a strategy: to have one chosen, see
``littoral.deciding``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from littoral.continuum.continuum import Continuum
from littoral.continuum.routes import Routes
from littoral.document import suggest
from littoral.errors import Infeasible, InputError
from littoral.job import Job
from littoral.learning.leases import apportion
from littoral.learning.task import Footprint, Recipe
from littoral.planning import cost, paces, wiring
from littoral.planning.batches import equal_finish
from littoral.planning.collective import DIRECT, strongest
from littoral.planning.flows import last_arrival
from littoral.planning.paces import Setting
from littoral.planning.plan import Plan, Prediction, Server, Worker
from littoral.units import show_bytes, show_duration, show_rate

PLANNERS = ["fair", "proportional"]
PLACEMENTS = 6  # places for servers to try
SERVER_VECTORS = 4  # weights, gradient, optimiser and a message
LONGEST_S = 100 * 365 * 86400.0  # a plan beyond a century is a slip of the pen


def make_plan(job: Job, footprint: Footprint, recipe: Recipe) -> Plan:
    """The plan for a job; refuses what cannot be kept."""
    if job.planner not in (*PLANNERS, "auto"):
        remedy = suggest(job.planner, [*PLANNERS, "auto"])
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


def fairness(plan: Plan) -> float:
    """Jain's index of how long each worker is busy per epoch: 1 when all carry the same burden, 1/n when one does."""
    burdens = [worker.shard / worker.samples_per_s for worker in plan.workers]
    return sum(burdens) ** 2 / (len(burdens) * sum(burden**2 for burden in burdens))


def _choice(job: Job, best: Plan, drafts: Sequence[Plan]) -> str:
    others = ", ".join(
        f"{plan.strategy}/{plan.planner} {show_duration(plan.predicted.time_s)}" for plan in drafts if plan is not best
    )
    name = f"{best.strategy}/{best.planner} {show_duration(best.predicted.time_s)}"
    return f"chosen for {job.objective}: {name}; the alternatives: {others or 'none keeps the limits'}"


def _draft(job: Job, footprint: Footprint, recipe: Recipe) -> Plan:
    from littoral.strategies.strategy import make_strategy

    strategy: Any = make_strategy(job.strategy, job.parameters)
    continuum, routes = job.continuum, Routes(job.continuum)
    setting = Setting(
        continuum=continuum,
        routes=routes,
        task=footprint,
        sample_bytes=footprint.sample_bytes,
        epochs=job.epochs,
        width=2 if job.wire == "float16" else 4,
    )
    devices = _eligible(job)
    _check_backups(strategy, devices)
    if strategy.models == "served":
        ways = [(setting, servers) for servers in _placements(job, setting, devices, footprint, strategy)]
    elif strategy.models == "own":
        ways = [(setting, ())]
    else:
        ways = [(replace(setting, reducing=weights), ()) for weights in _ownerships(job, setting, devices)]
    drafts = [_draft_with(job, fitted, footprint, recipe, strategy, devices, servers) for fitted, servers in ways]
    return min(drafts, key=lambda plan: plan.predicted.time_s)


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
    limits = [_largest_batch(continuum, device, footprint) for device in devices]
    in_step = math.isfinite(strategy.limit)  # workers wait for each other
    every_step = servers if strategy.name == "parameter_server" else ()  # whom a step exchanges something with
    ahead = getattr(strategy, "ahead", 0)
    if strategy.models == "own" and not in_step and job.planner != "fair":
        # Models that are averaged alike had better come from equal steps: the quick take more of them.
        batches = _batches(replace(job, planner="fair"), setting, devices, (), limits, recipe)
        weights = [batch / paces.step_seconds(setting, d, batch) for d, batch in zip(devices, batches, strict=True)]
    else:
        batches = _batches(job, setting, devices, every_step if in_step else (), limits, recipe)
        weights = _weights(job, setting, devices, batches, () if in_step else every_step, ahead)
    stores = _stores(continuum, routes, devices)
    shards = _shards(job, footprint, weights, stores)
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


def _eligible(job: Job) -> tuple[str, ...]:
    """Devices that may work: those named; else all that neither serve nor only store by the job's word."""
    if job.workers:
        return job.workers
    stores = {store.device for store in job.continuum.stores if store.device}
    devices = tuple(d for d in job.continuum.device_names if d not in job.servers and d not in stores)
    if not devices:
        raise Infeasible("no device is left to work: all of them serve or store; name some under 'workers'")
    return devices


def _largest_batch(continuum: Continuum, device: str, footprint: Footprint) -> int:
    limit = continuum.device(device).largest_batch(footprint)
    if limit < 1:
        have = show_bytes(continuum.device(device).memory_bytes)
        need = show_bytes(4 * footprint.vector_bytes + footprint.activation_bytes)
        raise Infeasible(
            f"memory of device {device!r} binds: it has {have}, and a batch of one needs {need}; leave the device "
            "out under 'workers', or train a smaller model"
        )
    return limit


def _batches(
    job: Job, setting: Setting, devices: Sequence[str], servers: Sequence[Server], limits: Sequence[int],
    recipe: Recipe,
) -> list[int]:  # fmt: skip
    """Equal ones, or such that everyone's step, with its exchange with ``servers``, takes the same time."""
    batch = job.batch or recipe.batch
    if job.planner == "fair":
        return [min(batch, limit) for limit in limits]
    per_sample, fixed = [], []
    for device in devices:
        one, two = paces.step_seconds(setting, device, 1), paces.step_seconds(setting, device, 2)
        per_sample.append(two - one)
        fixed.append(one - (two - one) + _exchange(setting, device, servers))
    return equal_finish(per_sample, fixed, limits, batch * len(devices))


def _exchange(setting: Setting, device: str, servers: Sequence[Server]) -> float:
    """Seconds per step that a worker spends on its own way to the servers, alone on it."""
    longest = 0.0
    for server in servers:
        size = paces.slice_bytes(setting, server)
        there = setting.routes.between(device, server.device)
        back = setting.routes.between(server.device, device)
        longest = max(longest, there.seconds(size) + back.seconds(size))
    return longest


def _weights(
    job: Job, setting: Setting, devices: Sequence[str], batches: Sequence[int], servers: Sequence[Server], ahead: int
) -> list[float]:
    """What shards are proportional to: nothing, the batches, or where nobody waits the samples/s with the exchange."""
    if job.planner == "fair":
        return [1.0] * len(devices)
    if not servers:
        return [float(batch) for batch in batches]
    workers = [
        Worker(name=d, device=d, shard=b, batch=b, samples_per_s=1.0) for d, b in zip(devices, batches, strict=True)
    ]
    cycles = cost.async_cycles(setting, workers, servers, ahead)
    return [batch / cycle for batch, cycle in zip(batches, cycles, strict=True)]


def _shards(job: Job, footprint: Footprint, weights: Sequence[float], stores: Sequence[str | None]) -> list[int]:
    """How many samples each worker gets; ``by-store`` data stays with the workers that read its store."""
    if job.split != "by-store":
        return apportion(footprint.samples, weights)
    read = [store for store in job.continuum.stores if store.name in stores]
    if not read:
        raise InputError("split by-store without a store", remedy="describe 'stores' in the continuum", key="data")
    shards = [0] * len(weights)
    held = apportion(footprint.samples, [float(store.samples or 1) for store in read])
    for store, samples in zip(read, held, strict=True):
        readers = [i for i, name in enumerate(stores) if name == store.name]
        for i, share in zip(readers, apportion(samples, [weights[i] for i in readers]), strict=True):
            shards[i] = share
    return shards


def _stores(continuum: Continuum, routes: Routes, devices: Sequence[str]) -> list[str | None]:
    """The store each worker reads: the one whose data reaches it soonest."""
    if not continuum.stores:
        return [None] * len(devices)
    return [
        min(continuum.stores, key=lambda store: (routes.between(store.name, device).seconds(1e6), store.name)).name
        for device in devices
    ]


def _placements(
    job: Job, setting: Setting, devices: Sequence[str], footprint: Footprint, strategy: Any
) -> list[tuple[Server, ...]]:
    """Where servers may well be: where the workers' exchange ends soonest comes first."""
    candidates = job.servers or job.continuum.device_names
    if getattr(strategy, "per_site", False):
        return [_site_servers(job, setting, devices, footprint, candidates)]
    size = float(footprint.vector_bytes)

    def burden(device: str) -> tuple[float, int]:
        there = [setting.routes.between(d, device) for d in devices]
        back = [setting.routes.between(device, d) for d in devices]
        zeros = [0.0] * len(devices)
        seconds = last_arrival(zeros, there, size) + last_arrival(zeros, back, size)
        return seconds, job.continuum.device_names.index(device)

    slices = -(-size // strategy.servers)
    roomy = [name for name in candidates if job.continuum.device(name).memory_bytes >= SERVER_VECTORS * slices]
    if not roomy:
        need = show_bytes(SERVER_VECTORS * slices)
        raise Infeasible(f"memory binds: no device that may serve has the {need} that a server needs")
    ranked = sorted(roomy, key=burden)
    first = ranked[:PLACEMENTS] if len(devices) <= 64 else ranked[:1]
    return [_servers(footprint, strategy.servers, ranked[k:] + ranked[:k]) for k in range(len(first))]


def _site_servers(
    job: Job, setting: Setting, devices: Sequence[str], footprint: Footprint, candidates: Sequence[str]
) -> tuple[Server, ...]:
    """One server with the whole vector at each site that has workers: where its farthest worker reaches it soonest."""
    length, site_of = footprint.parameters + footprint.buffers, {d.name: d.site for d in job.continuum.devices}
    servers = []
    for number, site in enumerate(dict.fromkeys(site_of[device] for device in devices), start=1):
        workers = [device for device in devices if site_of[device] == site]
        here = [device for device in candidates if site_of[device] == site] or workers

        def slowest(device: str, workers: Sequence[str] = workers) -> float:
            ways = [setting.routes.between(worker, device) for worker in workers]
            return last_arrival([0.0] * len(ways), ways, float(footprint.vector_bytes))

        servers.append(Server(name=f"ps-{number}", device=min(here, key=slowest), start=0, stop=length, site=site))
    return tuple(servers)


def _servers(footprint: Footprint, count: int, devices: Sequence[str]) -> tuple[Server, ...]:
    """``count`` servers on the devices in turn, each with its slice of the vector."""
    length = footprint.parameters + footprint.buffers
    cuts = [round(i * length / count) for i in range(count + 1)]
    return tuple(
        Server(name=f"ps-{i + 1}", device=devices[i % len(devices)], start=cuts[i], stop=cuts[i + 1])
        for i in range(count)
    )


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


# -- refusal ------------------------------------------------------------------------------------------------------


def refuse(job: Job, plan: Plan) -> None:
    """Raise ``Infeasible`` if the plan's prediction breaks a limit of the job, naming the one that binds."""
    for check in (_check_deadline, _check_cost, _check_apps):
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


def _check_apps(job: Job, plan: Plan) -> None:
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
