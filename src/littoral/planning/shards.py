"""The best shards for given batches: everybody works until the same time T, and T is as small as the data allow.

A draft holds candidate batches, one row each, so that many are weighed in one go. ``relaxed`` lets shards be
fractions: T is the smallest of ``(M + sum start_i / s_i) / sum 1 / s_i`` over the nodes that start first, with s_i the
seconds that a sample costs node i. ``whole`` bisects T on the number of whole samples that everybody finishes by then.
It is exact where a short batch takes no longer than a longer one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from littoral.planning.instance import Array, Floats, Instance, Ints

ROUNDS = 200  # of bisection at most
CLOSE = 1e-13  # relative


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """Candidate batches (rows, nodes), 0 where a node is left out, and the seconds they lead to."""

    instance: Instance
    nodes: Ints  # which node a column is
    batches: Ints
    compute: Floats  # seconds per sample of a full batch
    update: Floats  # seconds per batch
    send: Floats  # seconds per sample, once

    @property
    def used(self) -> Array:
        return self.batches > 0

    @property
    def start(self) -> Floats:
        return np.asarray(np.broadcast_to(self.instance.start_s[self.nodes], self.batches.shape))

    def rows(self, some: Ints) -> Draft:
        """The same with some of the rows only."""
        return replace(self, batches=self.batches[some], compute=self.compute[some], update=self.update[some])

    def per_sample(self) -> Floats:
        """Seconds that a sample costs over all epochs; infinite where a node is left out."""
        seconds = self.send + self.instance.epochs * (self.compute + self.update / np.maximum(self.batches, 1))
        return np.where(self.used, seconds, np.inf)

    def full(self) -> Floats:
        """Seconds that a full batch costs over all epochs."""
        step = self.batches * self.compute + self.update
        return np.asarray(self.send * self.batches + self.instance.epochs * step)

    def short(self, sizes: Ints) -> Floats:
        """Seconds that a batch of fewer samples costs over all epochs."""
        nodes = np.broadcast_to(self.nodes, sizes.shape).ravel()
        compute = self.instance.performance.compute_seconds(nodes, np.maximum(sizes, 1).ravel()).reshape(sizes.shape)
        return np.asarray(self.send * sizes + self.instance.epochs * (sizes * compute + self.update))

    def finish(self, shards: Ints) -> Floats:
        """When each node is done; 0 where it has nothing to do."""
        batches = np.maximum(self.batches, 1)
        rest = shards % batches
        seconds = self.start + shards // batches * self.full() + np.where(rest > 0, self.short(rest), 0.0)
        return np.where(shards > 0, seconds, 0.0)


def draft(instance: Instance, batches: Array, placement: int, stores: Ints | None = None) -> Draft:
    """Candidates for all nodes of the instance; ``batches`` is (rows, nodes)."""
    rows = np.atleast_2d(batches).astype(np.int64)
    update, compute = np.zeros(rows.shape), np.ones(rows.shape)
    servers = instance.server_choices[placement]
    for row, batch in enumerate(rows):
        used = np.flatnonzero(batch)
        if len(used):
            update[row, used] = instance.performance.update_seconds(used, batch[used], servers)
    where = np.nonzero(rows)
    compute[where] = instance.performance.compute_seconds(where[1], rows[where])
    send = instance.transfer_s_per_sample[instance.nearest if stores is None else stores, instance.nodes]
    return Draft(instance=instance, nodes=instance.nodes, batches=rows, compute=compute, update=update, send=send)


def soonest(samples: float, start: Floats, seconds: Floats) -> Floats:
    """The time by which each row's nodes can have done ``samples`` together, as fractions of samples go."""
    order = np.argsort(start, axis=1, kind="stable")
    start, rate = np.take_along_axis(start, order, 1), 1.0 / np.take_along_axis(seconds, order, 1)
    rates = np.cumsum(rate, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = (samples + np.cumsum(start * rate, axis=1)) / rates
    return np.asarray(np.where(rates > 0, times, np.inf).min(axis=1))


def relaxed(one: Draft) -> Floats:
    """For each row a time that no whole shards undercut while larger batches cost less per sample; inf: impossible."""
    samples = one.instance.samples
    time = soonest(samples, one.start, one.per_sample())
    first = np.where(one.used, one.start + one.full(), 0.0).max(axis=1)  # everybody does a full batch at least
    return np.where(one.batches.sum(axis=1) <= samples, np.maximum(time, first), np.inf)


def fractions(one: Draft) -> Floats:
    """The shares of samples that end together, by row."""
    seconds = one.per_sample()
    time = soonest(one.instance.samples, one.start, seconds)
    return np.asarray(np.maximum(time[:, None] - one.start, 0.0) / seconds)


def whole(one: Draft) -> tuple[Floats, Ints]:
    """For each row the least time, and whole shards of at least a batch each that reach it; inf: impossible."""
    samples = one.instance.samples
    bound = relaxed(one)
    possible = np.isfinite(bound)
    high = soonest(samples, one.start, one.per_sample()) + np.where(one.used, one.full(), 0.0).max(axis=1)
    high = np.where(possible, high, 1.0) * (1 + 1e-9)
    low = np.where(possible, bound, 0.0) * (1 - 1e-9)
    fewer, more = done_by(one, low), done_by(one, high)
    early = fewer.sum(axis=1) >= samples  # then it was no bound
    low, fewer = np.where(early, 0.0, low), np.where(early[:, None], one.batches, fewer)
    for _ in range(ROUNDS):
        if np.all(~possible | (more.sum(axis=1) == samples) | (high - low <= CLOSE * high)):
            break
        middle = (low + high) / 2
        done = done_by(one, middle)
        enough = done.sum(axis=1) >= samples
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        fewer, more = np.where(enough[:, None], fewer, done), np.where(enough[:, None], done, more)
    shards = _between(one, fewer, more)
    return np.where(possible, one.finish(shards).max(axis=1), np.inf), shards


def done_by(one: Draft, time: Floats) -> Ints:
    """Whole samples that each node can finish by then; never less than a batch."""
    left = np.maximum(time[:, None] - one.start, 0.0)
    period = np.where(one.used, one.full(), np.inf)
    batches = np.floor(left / period).astype(np.int64)
    left = left - batches * np.where(one.used, period, 0.0)
    low, high = np.zeros_like(one.batches), np.maximum(one.batches - 1, 0)
    for _ in range(int(one.batches.max(initial=1)).bit_length()):
        middle = (low + high + 1) // 2
        fits = one.short(middle) <= left
        low, high = np.where(fits, middle, low), np.where(fits, high, np.maximum(middle - 1, 0))
    return np.where(one.used, np.maximum(batches * one.batches + low, one.batches), 0)


def _between(one: Draft, fewer: Ints, more: Ints) -> Ints:
    """From ``fewer`` towards ``more`` until the sum is right, the quick nodes first."""
    order = np.argsort(one.per_sample(), axis=1, kind="stable")
    extra = np.take_along_axis(more - fewer, order, 1)
    missing = one.instance.samples - fewer.sum(axis=1, keepdims=True)
    take = np.clip(missing - (np.cumsum(extra, axis=1) - extra), 0, extra)
    shards = fewer.copy()
    np.put_along_axis(shards, order, np.take_along_axis(fewer, order, 1) + take, 1)
    return shards


def apportioned(samples: int, shares: Floats) -> Ints:
    """Whole numbers in proportion to ``shares`` that sum to ``samples``: by largest remainder, first come of equals."""
    exact = shares * (samples / shares.sum())
    floors = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - floors), kind="stable")
    floors[order[: samples - int(floors.sum())]] += 1
    return np.asarray(floors, dtype=np.int64)


def spread(instance: Instance, nodes: Ints, values: Array) -> Ints:
    """The values of some nodes, and 0 for the others."""
    every = np.zeros(len(instance.names), dtype=np.int64)
    every[nodes] = values
    return every
