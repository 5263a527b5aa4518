"""Who gets how much: batches, shards, and the store that each worker reads."""

from __future__ import annotations

from collections.abc import Sequence

from littoral.continuum.continuum import Continuum
from littoral.continuum.routes import Routes
from littoral.errors import Infeasible, InputError
from littoral.job import Job
from littoral.learning.leases import apportion
from littoral.learning.task import Footprint, Recipe
from littoral.planning import cost, paces
from littoral.planning.batches import equal_finish
from littoral.planning.paces import Setting
from littoral.planning.plan import Server, Worker
from littoral.units import show_bytes


def largest_batch(continuum: Continuum, device: str, footprint: Footprint) -> int:
    limit = continuum.device(device).largest_batch(footprint)
    if limit < 1:
        have = show_bytes(continuum.device(device).memory_bytes)
        need = show_bytes(4 * footprint.vector_bytes + footprint.activation_bytes)
        raise Infeasible(
            f"memory of device {device!r} binds: it has {have}, and a batch of one needs {need}; leave the device "
            "out under 'workers', or train a smaller model"
        )
    return limit


def batches_of(
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


def weights_of(
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


def shards_of(job: Job, footprint: Footprint, weights: Sequence[float], stores: Sequence[str | None]) -> list[int]:
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


def stores_of(continuum: Continuum, routes: Routes, devices: Sequence[str]) -> list[str | None]:
    """The store each worker reads: the one whose data reaches it soonest."""
    if not continuum.stores:
        return [None] * len(devices)
    return [
        min(continuum.stores, key=lambda store: (routes.between(store.name, device).seconds(1e6), store.name)).name
        for device in devices
    ]
