"""Answers that need no search: equal shards for all, or one node alone. Others are measured by them."""

from __future__ import annotations

import numpy as np

from littoral.planning.instance import Instance, Scheme, evaluate
from littoral.planning.room import Room, room
from littoral.planning.shards import apportioned, spread

PAIRS = 2048  # of node and batch that are all tried; beyond, only the largest batch


def solve_fair(instance: Instance, batch: int | None = None, *, placement: int = 0, feasible: bool = False) -> Scheme:
    """Equal shards and the job's batch on all nodes, as Hadoop-style schedulers deal them.

    Nothing is checked: ask ``violations``. With ``feasible``, only nodes that have room take part, with a batch that
    they have room for.
    """
    wanted = instance.batch_most if batch is None else batch
    if feasible:
        return _fair_with_room(instance, room(instance), wanted, placement)
    shards = apportioned(instance.samples, np.ones(len(instance.names)))
    return evaluate(instance, shards, np.minimum(wanted, shards), placement)


def _fair_with_room(instance: Instance, space: Room, wanted: int, placement: int) -> Scheme:
    """As many nodes as can each have a batch of the equal shard."""
    least = space.smallest(space.nodes)
    nodes = space.nodes[np.argsort(least, kind="stable")]
    counts = np.flatnonzero(np.sort(least) <= instance.samples // np.arange(1, len(nodes) + 1))
    nodes = nodes[: counts[-1] + 1]
    quick = np.argsort(instance.performance.compute_seconds(nodes, space.smallest(nodes)), kind="stable")
    nodes = nodes[quick]  # what is left over goes to the first of them
    shards = apportioned(instance.samples, np.ones(len(nodes)))
    batches = np.maximum(space.largest(nodes, np.minimum(wanted, shards)), space.smallest(nodes))
    return evaluate(instance, spread(instance, nodes, shards), spread(instance, nodes, batches), placement)


def alone(instance: Instance, space: Room, placement: int = 0) -> Scheme:
    """The best that one node does by itself, with the best of its batches."""
    servers, performance = instance.server_choices[placement], instance.performance
    rungs, nodes = np.nonzero(space.allowed)
    batches = space.rungs[rungs]
    if len(nodes) > PAIRS:
        nodes, batches = space.nodes, space.largest(space.nodes, instance.samples)
    pairs = zip(nodes, batches, strict=True)
    update = np.array([performance.update_seconds(np.array([i]), np.array([b]), servers)[0] for i, b in pairs])
    steps = batches * performance.compute_seconds(nodes, batches) + update
    rest = instance.samples % batches
    short = np.where(rest > 0, rest * performance.compute_seconds(nodes, np.maximum(rest, 1)) + update, 0.0)
    once = instance.start_s[nodes] + instance.transfer_s_per_sample.min(axis=0)[nodes] * instance.samples
    best = int(np.argmin(once + instance.epochs * (instance.samples // batches * steps + short)))
    shards = spread(instance, nodes[[best]], np.array([instance.samples]))
    reason = f"{instance.names[nodes[best]]!r} is quickest alone"
    return evaluate(instance, shards, spread(instance, nodes[[best]], batches[[best]]), placement, reasons=(reason,))
