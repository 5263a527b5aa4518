"""Small steps from a scheme to a better one, by any measure: samples moved between two nodes, a batch, a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from littoral.planning.instance import Instance, Ints, Scheme, evaluate
from littoral.planning.room import Room

SWEEPS = 30


def polished(
    instance: Instance, space: Room, scheme: Scheme, judge: Callable[[Scheme], tuple[float, ...]]
) -> Scheme:  # fmt: skip
    """The scheme after the best step, and the best after that, until none is judged smaller."""
    for _ in range(SWEEPS):
        best = min(_steps(instance, space, scheme), key=judge, default=scheme)
        if judge(best) >= judge(scheme):
            break
        scheme = best
    return scheme


def _steps(instance: Instance, space: Room, scheme: Scheme) -> Iterator[Scheme]:
    shards, batches, stores = np.array(scheme.shards), np.array(scheme.batches), np.array(scheme.stores)
    for placement in range(len(instance.server_choices)):
        yield evaluate(instance, shards, batches, placement, stores, scheme.reasons)
    for node in scheme.workers:
        for store in range(len(instance.transfer_s_per_sample)):
            others = np.where(instance.nodes == node, store, stores)
            yield evaluate(instance, shards, batches, scheme.servers, others, scheme.reasons)
        for batch in space.rungs[space.allowed[:, node] & (space.rungs <= shards[node])]:
            changed = np.where(instance.nodes == node, batch, batches)
            yield evaluate(instance, shards, changed, scheme.servers, stores, scheme.reasons)
    for moved, changed in _moves(instance, space, shards, batches):
        yield evaluate(instance, moved, changed, scheme.servers, stores, scheme.reasons)


def _moves(instance: Instance, space: Room, shards: Ints, batches: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Some samples of one node, or all, given to another."""
    for giver in np.flatnonzero(shards):
        for taker in space.nodes[space.nodes != giver]:
            least, held = int(space.smallest(np.array([taker]))[0]), int(shards[giver])
            amounts = {1, least, int(batches[giver]), int(batches[taker]), held // 2, held - int(batches[giver]), held}
            for amount in sorted(amount for amount in amounts if 0 < amount <= held):
                moved = shards.copy()
                moved[giver] -= amount
                moved[taker] += amount
                wanted = np.where(batches > 0, batches, instance.batch_most)
                changed = space.largest(instance.nodes, np.minimum(wanted, moved))
                if ((changed > 0) == (moved > 0)).all():
                    yield moved, changed
