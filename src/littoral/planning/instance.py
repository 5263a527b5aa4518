"""One scheduling problem as Deep-Edge states it, and its answers, all judged by the same function.

Worker i gets d_i samples in batches of b_i and is done after ``transfer_i d_i + start_i + epochs * epoch_i`` seconds;
the job takes as long as the last worker. An epoch is its full batches and, if d_i is no multiple of b_i, a short one:
``epoch_i = sum over batches of (size * compute_i(size) + update_i)``, the update as it is with everybody's full batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from littoral.errors import InputError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Placement = tuple[int, ...]  # the servers used; what their numbers mean is known to the performance

RUNGS = 64  # more batch sizes than this are not told apart


def _nothing() -> Floats:
    return np.zeros(())


class Performance(Protocol):
    """What is foretold of the nodes. One call answers for any number of them; ``nodes`` are places in the instance."""

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        """Seconds per sample, each node with its batch, alone."""
        ...

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        """Seconds per batch that each node spends on push, update and pull when just these nodes work.

        The others count through summaries in which order plays no part: number, sum, mean. ``batches`` may have
        leading axes, one alternative each (only ``exact`` asks so, and asks row by row where that fails).
        """
        ...

    def largest_batch(self, nodes: Ints) -> Ints:
        """What fits in memory; 0 where not even one sample does."""
        ...

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        """(nodes, apps): the upper end of the predicted execution time beside the training; nan without the app."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instance:
    """A job to be spread over nodes: seconds, samples, US dollars. What is left out costs nothing and binds nobody."""

    names: tuple[str, ...]
    samples: int
    performance: Performance
    epochs: int = 1
    batch_least: int = 1
    batch_most: int = 64
    ladder: tuple[int, ...] = ()  # the batch sizes to choose from; empty: all between the least and the most
    apps: tuple[str, ...] = ()
    deadlines: Floats = field(default_factory=lambda: np.full((), np.inf))  # (nodes, apps)
    start_s: Floats = field(default_factory=_nothing)  # (nodes,) once
    transfer_s_per_sample: Floats = field(default_factory=_nothing)  # (stores, nodes)
    server_choices: tuple[Placement, ...] = ((0,),)  # how many servers, and where
    usd_per_s: Floats = field(default_factory=_nothing)  # (nodes,) of those that work, until the last is done
    usd_per_batch: Floats = field(default_factory=_nothing)  # (nodes,) for what is exchanged with the servers
    usd_per_sample: Floats = field(default_factory=_nothing)  # (stores, nodes)
    server_usd_per_s: Floats = field(default_factory=_nothing)  # one for all servers, or one each
    nearest: Ints = field(init=False)  # the store that each node gets a sample from soonest; the cheaper of equals

    def __post_init__(self) -> None:
        n, stores = len(self.names), max(np.atleast_2d(self.transfer_s_per_sample).shape[0], 1)
        shapes = {"deadlines": (n, len(self.apps)), "start_s": (n,), "transfer_s_per_sample": (stores, n),
                  "usd_per_s": (n,), "usd_per_batch": (n,), "usd_per_sample": (stores, n)}  # fmt: skip
        for name, shape in shapes.items():
            object.__setattr__(self, name, np.broadcast_to(np.asarray(getattr(self, name), dtype=float), shape))
        order = np.lexsort((self.usd_per_sample, self.transfer_s_per_sample), axis=0)
        object.__setattr__(self, "nearest", order[0].astype(np.int64))
        if not self.names or self.samples < 1 or self.epochs < 1 or not self.server_choices:
            found = f"{n} nodes, {self.samples} samples, {self.epochs} epochs, {len(self.server_choices)} placements"
            raise InputError(found, remedy="give at least one of each")
        if not 1 <= self.batch_least <= self.batch_most:
            raise InputError(f"batches from {self.batch_least} to {self.batch_most}", remedy="give 1 <= least <= most")

    @property
    def nodes(self) -> Ints:
        return np.arange(len(self.names))

    @property
    def rungs(self) -> Ints:
        """The batch sizes to choose from, rising; at most ``RUNGS`` of them, in even ratios where there are more."""
        if self.ladder:
            sizes = np.unique(self.ladder)
            return sizes[(sizes >= self.batch_least) & (sizes <= self.batch_most)]
        if self.batch_most - self.batch_least < RUNGS:
            return np.arange(self.batch_least, self.batch_most + 1)
        return np.unique(np.geomspace(self.batch_least, self.batch_most, RUNGS).round().astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Who does how much in which batches, and what that takes. A node with no samples is not used."""

    shards: tuple[int, ...]
    batches: tuple[int, ...]
    servers: int  # which of the instance's placements
    stores: tuple[int, ...]  # where each node gets its samples
    epoch_s: float  # of the slowest worker
    total_s: float
    cost_usd: float
    busy_s: tuple[float, ...]  # from the first sample sent to a worker to its last update
    reasons: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(i for i, shard in enumerate(self.shards) if shard)


def evaluate(
    instance: Instance, shards: Sequence[int] | Array, batches: Sequence[int] | Array, placement: int = 0,
    stores: Sequence[int] | Array | None = None, reasons: tuple[str, ...] = (),
) -> Scheme:  # fmt: skip
    """The scheme with its times and cost: all who take part are paid to the end, data by the sample and the batch."""
    d, b = np.asarray(shards, dtype=np.int64), np.asarray(batches, dtype=np.int64)
    sources = instance.nearest if stores is None else np.asarray(stores, dtype=np.int64)
    used = np.flatnonzero(d > 0)
    epoch, busy = np.zeros(len(d)), np.zeros(len(d))
    epoch[used] = _epoch_seconds(instance, used, d[used], b[used], placement)
    send = instance.transfer_s_per_sample[sources, instance.nodes]
    busy[used] = instance.start_s[used] + send[used] * d[used] + instance.epochs * epoch[used]
    total = float(busy.max(initial=0.0))
    moved = float(d[used] @ instance.usd_per_sample[sources, instance.nodes][used])
    moved += instance.epochs * float(np.ceil(d[used] / np.maximum(b[used], 1)) @ instance.usd_per_batch[used])
    return Scheme(
        shards=tuple(d.tolist()), batches=tuple(b.tolist()), servers=placement, stores=tuple(sources.tolist()),
        epoch_s=float(epoch.max(initial=0.0)), total_s=total, busy_s=tuple(busy.tolist()), reasons=reasons,
        cost_usd=total * (float(instance.usd_per_s[used].sum()) + servers_usd_per_s(instance, placement)) + moved,
    )  # fmt: skip


def _epoch_seconds(instance: Instance, used: Ints, d: Ints, b: Ints, placement: int) -> Floats:
    b = np.maximum(b, 1)
    update = instance.performance.update_seconds(used, b, instance.server_choices[placement])
    full, short = d // b, d % b
    whole = full * (b * instance.performance.compute_seconds(used, b) + update)
    rest = short * instance.performance.compute_seconds(used, np.maximum(short, 1)) + update
    return np.asarray(whole + np.where(short > 0, rest, 0.0))


def servers_usd_per_s(instance: Instance, placement: int) -> float:
    """What the servers of a placement cost together."""
    servers = instance.server_choices[placement]
    prices = instance.server_usd_per_s
    return float(prices * len(servers)) if np.ndim(prices) == 0 else float(sum(prices[s] for s in servers))


def violations(instance: Instance, scheme: Scheme) -> list[str]:
    """Everything that is wrong with a scheme, in words; empty if it may be run."""
    found = []
    d, b = np.array(scheme.shards), np.array(scheme.batches)
    if d.sum() != instance.samples:
        found.append(f"shards sum to {d.sum()} of {instance.samples} samples")
    used = np.flatnonzero(d > 0)
    most = np.minimum(instance.performance.largest_batch(instance.nodes), instance.batch_most)
    tests = {
        "a negative shard": d < 0,
        "a batch without samples, or samples without a batch": (d > 0) != (b > 0),
        "a batch larger than its shard": b > d,
        "a batch below the least": (d > 0) & (b < instance.batch_least),
        "a batch larger than memory or the most": (d > 0) & (b > most),
    }
    for what, wrong in tests.items():
        found += [f"{what} on {instance.names[i]!r}" for i in np.flatnonzero(wrong)]
    late = instance.performance.latencies(used, np.maximum(b[used], 1)) > instance.deadlines[used]
    found += [f"app {instance.apps[a]!r} misses its deadline on {instance.names[used[i]]!r}"
              for i, a in zip(*np.nonzero(late), strict=True)]  # fmt: skip
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AffinePerformance:
    """Straight lines: the prior where nothing was measured. Arrays are per node unless they say otherwise.

    compute = load * (forward + backward / b)                    a backward pass costs the same for any batch
    update = reach[servers] + (worker * n + sample * sum(b) + push * sum(1 / b)) / servers
    memory = model + activation * b; latency = alone + slope * b
    """

    forward_s: Floats
    backward_s: Floats
    load: Floats  # 1: the node is idle otherwise
    reach_s: Floats  # (servers, nodes) push and pull alone; the mean over the servers of a placement counts
    worker_s: float = 0.0  # what each worker adds to everybody's update
    sample_s: float = 0.0  # what each sample of everybody's batches adds
    push_s: float = 0.0  # what frequent pushes add: small batches push often
    memory: Floats  # bytes
    model_bytes: float = 0.0
    activation_bytes: float = 1.0
    alone_s: Floats  # (nodes, apps) nan: the app is not there
    slope_s: Floats  # (nodes, apps) seconds per sample of the batch

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        return np.asarray(self.load[nodes] * (self.forward_s[nodes] + self.backward_s[nodes] / batches))

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        reach = self.reach_s[list(servers)][:, nodes].mean(axis=0)
        count, whole = batches.shape[-1], batches.sum(axis=-1, keepdims=True)
        crowd = self.worker_s * count + self.sample_s * whole
        if self.push_s:
            crowd = crowd + self.push_s * (1.0 / batches).sum(axis=-1, keepdims=True)
        return np.asarray(reach + crowd / len(servers))

    def largest_batch(self, nodes: Ints) -> Ints:
        free = (self.memory[nodes] - self.model_bytes) / self.activation_bytes
        return np.maximum(np.floor(free), 0).astype(np.int64)

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        return np.asarray(self.alone_s[nodes] + self.slope_s[nodes] * np.asarray(batches)[:, None])
