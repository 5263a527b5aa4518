"""How long a plan takes, as formulas one can read. Planner and simulator share the step-time and pipe models.

Symbols: M vector bytes, n workers, b_i batch, d_i shard, c_i seconds of a step on worker i (with load and apps), r the
rate of a way once everyone who passes its slowest pipe took a share, l one-way latency. Where a device says what
messages cost its processor (``handling``), c_i includes those of a step.

    all-reduce    step    = max c_i + shares + means + 2 max l + update, each the busiest pipe's bytes over its rate:
                  with equal parts (n-1)/n M/r; a ring beyond 8: 2(n-1)/n M/r + 2(n-1) mean l
    server, bsp   step    = everyone's pull at once + last push, served in order of arrival + update
    server, asp   cycle_i = c_i + push_i + pull_i, stretched by the queue at the busiest shared pipe
                  with ``ahead`` a: 1 + a of them under way, each step waiting for the one before
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from littoral.continuum.routes import Pipe, Route
from littoral.continuum.signal import Constant
from littoral.planning.collective import DIRECT, hops, phases
from littoral.planning.flows import Leg, all_at_once, last_arrival, queued_cycles, shared_rates
from littoral.planning.paces import (
    Setting,
    lockstep_seconds,
    shard_seconds,
    slice_bytes,
    step_seconds,
    update_seconds,
)
from littoral.planning.plan import Plan, Prediction, Server, Term, Worker
from littoral.units import show_bytes


def has_formula(plan: Plan) -> bool:
    """Whether the plan's time is a formula here; what codecs save is not."""
    return plan.strategy in ("allreduce", "parameter_server") and plan.parameters.get("codec", "none") == "none"


def collective_seconds(setting: Setting, devices: Sequence[str]) -> tuple[float, float]:
    """Transfer and latency of an all-reduce of the vector."""
    transfer = latency = 0.0
    for phase in phases(setting.parts(devices), setting.width):
        ways = [setting.routes.between(leg.source, leg.target) for leg in phase]
        transfer += all_at_once(ways, [leg.size for leg in phase])
        latency += hops([way.latency_s for way in ways], len(devices))
    return transfer, latency


def predict_allreduce(setting: Setting, workers: Sequence[Worker]) -> Prediction:
    """Synchronous all-reduce."""
    devices = [worker.device for worker in workers]
    steps = max(math.ceil(worker.shard / worker.batch) for worker in workers)
    compute, spread = lockstep_seconds(setting, workers)
    transfer, latency = collective_seconds(setting, devices)
    legs = [leg for phase in phases(setting.parts(devices), setting.width) for leg in phase]
    update = max(update_seconds(setting, device, setting.task.vector_bytes) for device in devices)
    rounds = setting.epochs * steps
    startup = startup_seconds(setting, workers)
    terms = (
        Term(name="start-up", seconds=startup, formula="slowest shard and model from its store"),
        Term(name="compute", seconds=setting.epochs * compute, formula=f"{rounds} steps x max_i step_i(b_i)"),
        Term(
            name="jitter",
            seconds=setting.epochs * spread,
            formula="expected worst of those about equally slow",
        ),
        Term(
            name="transfer",
            seconds=rounds * transfer,
            formula=f"steps x {show_bytes(sum(leg.size for leg in legs))} in {len(legs)} messages",
        ),
        Term(name="latency", seconds=rounds * latency, formula=f"steps x {_hops(len(devices))}"),
        Term(name="update", seconds=rounds * update, formula="steps x 3 passes over the vector in memory"),
    )
    traffic = [(setting.routes.between(leg.source, leg.target), float(rounds * leg.size)) for leg in legs]
    return _prediction(setting, workers, (), terms, startup, traffic)


def _hops(n: int) -> str:
    return "2 x the longest latency" if n <= DIRECT else "2(n-1) x mean latency of the ring"


def predict_compute(setting: Setting, workers: Sequence[Worker], servers: Sequence[Server]) -> Prediction:
    """What the plan takes at least: its steps, without communication. A rehearsal in virtual time finds the rest."""
    startup = startup_seconds(setting, workers)
    slowest = max(workers, key=lambda worker: shard_seconds(setting, worker))
    terms = (
        Term(name="start-up", seconds=startup, formula="slowest shard and model from its store"),
        Term(name="compute", seconds=setting.epochs * shard_seconds(setting, slowest),
             formula=f"steps of {slowest.name}, the last to finish"),
    )  # fmt: skip
    return _prediction(setting, workers, servers, terms, startup, [])


def predict_servers(
    setting: Setting, workers: Sequence[Worker], servers: Sequence[Server], limit: float, ahead: int = 0
) -> Prediction:
    """Parameter servers; ``limit`` is the staleness bound (0: bsp, infinity: asp), ``ahead`` that of answers."""
    steps = [math.ceil(worker.shard / worker.batch) for worker in workers]
    startup = startup_seconds(setting, workers)
    if limit == 0:
        terms = _bsp_terms(setting, workers, servers, max(steps))
    else:
        terms = _async_terms(setting, workers, servers, steps, limit, ahead)
    head = Term(name="start-up", seconds=startup, formula="slowest shard and model from its store")
    traffic = []
    for worker, count in zip(workers, steps, strict=True):
        for server in servers:
            amount = setting.epochs * count * slice_bytes(setting, server)
            traffic.append((setting.routes.between(worker.device, server.device), amount))
            traffic.append((setting.routes.between(server.device, worker.device), amount))
    return _prediction(setting, workers, servers, (head, *terms), startup, traffic)


def _bsp_terms(setting: Setting, workers: Sequence[Worker], servers: Sequence[Server], steps: int) -> tuple[Term, ...]:
    rounds = setting.epochs * steps
    pull = push = update = 0.0
    compute, spread = lockstep_seconds(setting, workers)
    for server in servers:
        size = slice_bytes(setting, server)
        down = [setting.routes.between(server.device, worker.device) for worker in workers]
        up = [setting.routes.between(worker.device, server.device) for worker in workers]
        pull = max(pull, last_arrival([0.0] * len(workers), down, size))
        starts = [step_seconds(setting, worker.device, worker.batch) for worker in workers]
        push = max(push, last_arrival(starts, up, size) - max(starts))
        update = max(update, update_seconds(setting, server.device, size * 4 / setting.width))
    return (
        Term(name="pull", seconds=rounds * pull, formula=f"{rounds} steps x everyone's parameters at once"),
        Term(name="compute", seconds=setting.epochs * compute, formula="steps x max_i step_i(b_i)"),
        Term(
            name="jitter",
            seconds=setting.epochs * spread,
            formula="expected worst of those about equally slow",
        ),
        Term(name="push", seconds=rounds * push, formula="steps x last gradient, in order of arrival"),
        Term(name="update", seconds=rounds * update, formula="steps x 3 passes over the vector in memory"),
    )


def async_cycles(setting: Setting, workers: Sequence[Worker], servers: Sequence[Server], ahead: int = 0) -> list[float]:
    """Seconds of one pull-compute-push round of every worker, queueing included.

    Exchanges with several servers run side by side.
    """
    ways = [
        [
            (setting.routes.between(*ends), slice_bytes(setting, server), server.device)
            for server in servers
            for ends in ((worker.device, server.device), (server.device, worker.device))
        ]
        for worker in workers
    ]
    crowd: dict[Pipe, list[float]] = {}  # what each pipe has to carry for each of its users, in seconds
    for mine in ways:
        for way, size, _ in mine:
            for pipe in way.pipes:
                crowd.setdefault(pipe, []).append(size / pipe.capacity.mean())
    think, legs = [], []
    for worker, mine in zip(workers, ways, strict=True):
        latency = max(there[0].latency_s + back[0].latency_s for there, back in zip(mine[::2], mine[1::2], strict=True))
        update = sum(update_seconds(setting, device, size * 4 / setting.width) for _, size, device in mine) / 2
        step = step_seconds(setting, worker.device, worker.batch)
        itself = Pipe(f"{worker.name} itself", Constant(1.0))  # which computes one step at a time
        think.append(latency + update)
        legs.append([Leg(step, itself, step), *(_leg(way, size, crowd, len(servers)) for way, size, _ in mine)])
    return queued_cycles(think, legs, ahead)


def _leg(way: Route, size: float, crowd: dict[Pipe, list[float]], beside: int) -> Leg:
    """One of ``beside`` transfers that a worker makes at once: they share its own port, and queue with others'."""
    own = [pipe.capacity.mean() for pipe in way.pipes if len(crowd[pipe]) <= beside]
    shared = [pipe for pipe in way.pipes if len(crowd[pipe]) > beside]
    rest = min([way.flow_limit, *(pipe.capacity.mean() for pipe in shared)])
    alone = max(size / min(own, default=math.inf), size / rest / beside)
    if not shared:
        return Leg(alone)
    busiest = max(shared, key=lambda pipe: (sum(crowd[pipe]), pipe.name))
    return Leg(alone, busiest, size / busiest.capacity.mean())


def _async_terms(
    setting: Setting, workers: Sequence[Worker], servers: Sequence[Server], steps: Sequence[int], limit: float,
    ahead: int,
) -> tuple[Term, ...]:  # fmt: skip
    cycles = async_cycles(setting, workers, servers, ahead)
    full = [step_seconds(setting, worker.device, worker.batch) for worker in workers]
    computes = [shard_seconds(setting, worker) for worker in workers]
    exchanges = [n * (cycle - step) for n, cycle, step in zip(steps, cycles, full, strict=True)]
    pace = ""
    if math.isfinite(limit):  # nobody gets more than the bound ahead: in the long run all go at the slowest pace
        means = [(c + e) / n for c, e, n in zip(computes, exchanges, steps, strict=True)]
        pace = ", at the slowest's pace"
        exchanges = [n * max(means) - compute for n, compute in zip(steps, computes, strict=True)]
    last = max(range(len(workers)), key=lambda i: computes[i] + exchanges[i])
    name, epochs = workers[last].name, setting.epochs
    return (
        Term(
            name="compute",
            seconds=epochs * computes[last],
            formula=f"{epochs * steps[last]} steps of {name}, the last to finish",
        ),
        Term(name="exchange", seconds=epochs * exchanges[last], formula=f"push, pull and queue of {name}{pace}"),
    )


def startup_seconds(setting: Setting, workers: Sequence[Worker]) -> float:
    """Until the last worker has its shard and the model, if they come from a store."""
    fetches = _fetches(setting, workers)
    if not fetches:
        return 0.0
    ways, sizes = [way for way, _ in fetches], [size for _, size in fetches]
    rates = shared_rates(ways)
    lone = max(way.latency_s + size / rate for way, size, rate in zip(ways, sizes, rates, strict=True))
    pipes: dict[Pipe, float] = {}
    for way, size in zip(ways, sizes, strict=True):
        for pipe in way.pipes:
            pipes[pipe] = pipes.get(pipe, 0.0) + size / pipe.capacity.mean()
    # Flows that end early leave their share to the others: the busiest pipe's total work bounds the time.
    busiest = max(pipes.values(), default=0.0)
    return min(lone, max(busiest, max(way.seconds(s) for way, s in zip(ways, sizes, strict=True))))


def _fetches(setting: Setting, workers: Sequence[Worker]) -> list[tuple[Route, float]]:
    """What workers get from their stores before they begin, and on which way."""
    return [
        (
            setting.routes.between(worker.store, worker.device),
            float(worker.shard * setting.sample_bytes + setting.task.vector_bytes),
        )
        for worker in workers
        if worker.store is not None
    ]


def _prediction(
    setting: Setting, workers: Sequence[Worker], servers: Sequence[Server], terms: tuple[Term, ...],
    startup: float, traffic: Sequence[tuple[Route, float]],
) -> Prediction:  # fmt: skip
    time_s = sum(term.seconds for term in terms)
    devices = dict.fromkeys([*(w.device for w in workers), *(s.device for s in servers)])
    rent = time_s * sum(setting.continuum.device(device).price_usd_per_s for device in devices)
    priced = [*traffic, *_fetches(setting, workers)]
    return Prediction(
        time_s=time_s,
        epoch_s=(time_s - startup) / setting.epochs,
        bytes_sent=sum(amount for way, amount in traffic if way.pipes),
        wan_bytes=sum(amount for way, amount in priced if way.wide_area),
        cost_usd=rent + sum(amount * way.price_usd_per_byte for way, amount in priced),
        terms=terms,
    )
