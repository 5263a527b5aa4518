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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from littoral.continuum.app import TRAINING_DEMAND, App, crowding
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Workload
from littoral.continuum.link import HEADER_BYTES
from littoral.continuum.routes import Pipe, Route, Routes
from littoral.continuum.signal import Constant
from littoral.planning.collective import DIRECT, cut, ends, hops, phases
from littoral.planning.flows import Leg, all_at_once, last_arrival, queued_cycles, shared_rates
from littoral.planning.plan import Prediction, Server, Term, Worker
from littoral.units import show_bytes

UPDATE_PASSES = 3  # times an optimiser step reads or writes the vector in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every formula needs to know."""

    continuum: Continuum
    routes: Routes
    task: Workload
    sample_bytes: int
    epochs: int
    width: int = 4  # bytes of a vector's element on the wire
    handling: Mapping[str, float] = field(default_factory=dict)  # seconds per step that a device spends on messages
    reducing: Mapping[str, float] = field(default_factory=dict)  # by which weight a device owns a part in an all-reduce

    def parts(self, devices: Sequence[str]) -> dict[str, range]:
        """The part of the vector that each device owns in an all-reduce."""
        return cut(devices, self.reducing, self.task.vector_bytes // 4)


def slice_bytes(setting: Setting, server: Server) -> float:
    """A message with a server's part of the vector."""
    return float(setting.width * (server.stop - server.start) + HEADER_BYTES)


# -- one device ---------------------------------------------------------------------------------------------------


def training_pace(device: Device, apps: Sequence[App]) -> float:
    """Seconds of progress per second that training makes on a device beside its load and apps.

    In a period p an app works for w*D seconds, D = crowding with training; meanwhile training gets w seconds of
    progress, and the rest of the period at its pace without the app.
    """
    load = device.load.mean()
    alone = crowding([TRAINING_DEMAND, load])
    pace = 1.0 / alone
    for app in apps:
        together = crowding([TRAINING_DEMAND, load, app.demand])
        busy = min(app.work_s * together, app.period_s)
        progress = busy / together + (app.period_s - busy) / alone
        pace *= progress / app.period_s * alone
    return pace


def app_latency(device: Device, app: App, others: Sequence[App]) -> float:
    """The longest that a period of an app takes beside training: every other app runs, the load is at its peak."""
    demands = [TRAINING_DEMAND, device.load.peak(), app.demand, *(other.demand for other in others)]
    return app.work_s * crowding(demands)


def step_seconds(setting: Setting, device: str, batch: float) -> float:
    """Mean seconds of a training step on a device as it is: load, apps and the step's messages included."""
    described = setting.continuum.device(device)
    pace = training_pace(described, setting.continuum.apps_on(device))
    return (described.step.seconds(setting.task, batch) + setting.handling.get(device, 0.0)) / pace


def handling_seconds(setting: Setting, devices: Sequence[str], servers: Sequence[Server]) -> dict[str, float]:
    """What the messages of a step cost each worker's device, those of servers that share it included."""
    found = {}
    for device in devices:
        handling = setting.continuum.device(device).handling
        if handling is None:
            continue
        if servers:
            both = 1 + sum(len(devices) for server in servers if server.device == device) / len(servers)
            size = 2 * sum(slice_bytes(setting, server) for server in servers)
            found[device] = both * handling.seconds(size, 2 * len(servers))
        else:
            messages, elements = ends(setting.parts(devices), device)
            found[device] = handling.seconds(setting.width * elements, messages)
    return found


def update_seconds(setting: Setting, device: str, size: float) -> float:
    """Seconds of an optimiser step over ``size`` bytes of vector."""
    return UPDATE_PASSES * size / setting.continuum.device(device).memory_bytes_per_s


# -- strategies ---------------------------------------------------------------------------------------------------


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
    computes = [_shard_seconds(setting, worker) for worker in workers]
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


def _shard_seconds(setting: Setting, worker: Worker) -> float:
    """Compute seconds of one epoch of a worker's own shard, its short last batch included."""
    whole, rest = divmod(worker.shard, worker.batch)
    seconds = whole * step_seconds(setting, worker.device, worker.batch)
    return seconds + (step_seconds(setting, worker.device, rest) if rest else 0.0)


# -- parts --------------------------------------------------------------------------------------------------------


def lockstep_seconds(setting: Setting, workers: Sequence[Worker]) -> tuple[float, float]:
    """Compute seconds of one epoch in lock-step, and what jitter adds: every round lasts as long as its slowest step.

    Rounds in which everybody has a full batch are alike; the last ones, in which shards run out, are looked at singly.
    """
    full = min(worker.shard // worker.batch for worker in workers)
    last = max(math.ceil(worker.shard / worker.batch) for worker in workers)
    compute, spread = _round(setting, workers, [worker.batch for worker in workers]) if full else (0.0, 0.0)
    compute, spread = full * compute, full * spread
    for number in range(full, last):
        batches = [min(worker.batch, max(0, worker.shard - number * worker.batch)) for worker in workers]
        slowest, extra = _round(setting, workers, batches)
        compute, spread = compute + slowest, spread + extra
    return compute, spread


def _round(setting: Setting, workers: Sequence[Worker], batches: Sequence[int]) -> tuple[float, float]:
    """The slowest step, and the expected maximum of jitter over those within a tenth of it."""
    times = [
        step_seconds(setting, w.device, b) if b else setting.handling.get(w.device, 0.0)  # messages cost idle ones too
        for w, b in zip(workers, batches, strict=True)
    ]
    slowest = max(times)
    close = [worker for worker, t in zip(workers, times, strict=True) if t >= 0.9 * slowest]
    jitter = max(setting.continuum.device(worker.device).jitter for worker in close)
    return slowest, slowest * jitter * expected_maximum(len(close))


def expected_maximum(n: int) -> float:
    """Mean of the largest of n standard normal draws (Blom's approximation).

    >>> round(expected_maximum(1), 2), round(expected_maximum(4), 2)
    (0.0, 1.05)
    """
    return NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


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
