"""Batches that answer a deadline: what each node would best do to finish most samples by time T.

With the updates taken as they are now, each node picks the batch with which it finishes most by T. The most productive
ones are taken until all samples are covered; the last ones get batches small enough for what is left. That finds
answers where everybody does a batch or two, which single changes rarely reach: batches must then sum to the samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from littoral.planning.instance import Floats, Instance, Ints
from littoral.planning.room import Room
from littoral.planning.shards import Draft, done_by, draft

FACTORS = (0.8, 0.86, 0.92, 0.96, 0.98, 1.0, 1.05)  # of the time there is an answer for
LAST = 16  # nodes that share what is left over
RUNGS = 8  # batch sizes tried


def responses(instance: Instance, space: Room, placement: int, batches: Ints, seconds: float) -> Iterator[Ints]:
    """Rows of batches that might take a little less than ``seconds``, which ``batches`` take."""
    options = _options(instance, space, placement, batches)
    for factor in FACTORS:
        done = done_by(options, np.full(len(options.batches), factor * seconds))
        done = np.where(options.start + options.full() <= factor * seconds, done, 0)
        best = len(done) - 1 - np.argmax(done[::-1], axis=0)
        most, chosen = done[best, instance.nodes], options.batches[best, instance.nodes]
        for order in (np.argsort(-most, kind="stable"), np.argsort(options.per_sample().min(axis=0), kind="stable")):
            yield _covering(instance, space, most, chosen, order)


def _options(instance: Instance, space: Room, placement: int, batches: Ints) -> Draft:
    """One row per batch size, with everybody's update as it is now."""
    rungs = np.unique(np.linspace(0, len(space.rungs) - 1, RUNGS).round().astype(np.int64))
    rows = np.where(space.allowed[rungs], space.rungs[rungs, None], 0)
    one = draft(instance, rows, placement)
    update = np.broadcast_to(_updates(instance, space, placement, batches), rows.shape)
    return Draft(instance=instance, nodes=one.nodes, batches=rows, compute=one.compute, update=update, send=one.send)


def _updates(instance: Instance, space: Room, placement: int, batches: Ints) -> Floats:
    """Of those that work as they are; of the others as if all worked, less what the working ones have it better."""
    every = np.where(batches > 0, batches, space.largest(instance.nodes, instance.batch_most))
    now, crowded = draft(instance, np.array([batches]), placement), draft(instance, np.array([every]), placement)
    used = batches > 0
    relief = float((crowded.update - now.update)[0, used].mean())
    return np.asarray(np.where(used, now.update[0], np.maximum(crowded.update[0] - relief, 0.0)))


def _covering(instance: Instance, space: Room, most: Ints, chosen: Ints, order: Ints) -> Ints:
    """The first nodes of ``order`` that do all samples; who follows shares the rest in smaller batches."""
    order = order[most[order] > 0]
    bulk = int(np.searchsorted(np.cumsum(most[order]), instance.samples, side="right"))
    row = np.zeros(len(instance.names), dtype=np.int64)
    row[order[:bulk]] = chosen[order[:bulk]]
    left = instance.samples - int(most[order[:bulk]].sum())
    for node in order[bulk : bulk + LAST]:
        batch = int(space.largest(np.array([node]), min(int(chosen[node]), left))[0])
        row[node] = batch
        left -= int(most[node]) // batch * batch if batch and most[node] <= left else batch
    return row
