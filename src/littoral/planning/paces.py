"""How long a device takes: a step beside its load and apps, a step's messages, an update, an epoch in lock-step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from littoral.continuum.app import TRAINING_DEMAND, App, crowding
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Workload
from littoral.continuum.link import HEADER_BYTES
from littoral.continuum.routes import Routes
from littoral.planning.collective import cut, ends
from littoral.planning.plan import Server, Worker

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


def shard_seconds(setting: Setting, worker: Worker) -> float:
    """Compute seconds of one epoch of a worker's own shard, its short last batch included."""
    whole, rest = divmod(worker.shard, worker.batch)
    seconds = whole * step_seconds(setting, worker.device, worker.batch)
    return seconds + (step_seconds(setting, worker.device, rest) if rest else 0.0)


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
