"""The proven optimum of a small instance, to measure the other solvers by.

The space is every set of nodes that have room, every placement of servers, every allowed batch of every node
(``Room``), and every whole shard of at least a batch. Stores need no search: sending is nobody else's burden, so the
nearest is best. All batches are enumerated, since the update of one node may depend on those of all. Rows whose
fractional time is no better than the best whole one are skipped; that time is a lower bound, because it counts a
sample at the cheapest that any batch up to the node's own makes it. Shards are bisected, which is exact where a short
batch takes no longer than a longer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np

from littoral.errors import InputError
from littoral.planning.instance import Floats, Instance, Ints, Placement, Scheme, evaluate
from littoral.planning.room import Room, room
from littoral.planning.shards import Draft, relaxed, spread, whole

NODES = 8
ROWS = 4_000_000  # combinations of batches that are still enumerated
BLOCK = 256  # rows bisected together
EVEN = 1e-12  # relative differences that are none


def solve_exact(instance: Instance) -> Scheme:
    """The scheme with the least total time; refuses instances that are too large to enumerate."""
    space = room(instance)
    _check(instance, space)
    cheapest = _cheapest(instance)
    best, winner = np.inf, None
    drafts = [(p, nodes) for p in range(len(instance.server_choices)) for nodes in _subsets(space.nodes)]
    bounds = [float(_bounds(_draft(instance, space, nodes, p), cheapest).min()) for p, nodes in drafts]
    for bound, (placement, nodes) in sorted(zip(bounds, drafts, strict=True), key=lambda pair: pair[0]):
        if bound >= best * (1 - EVEN):
            break
        time, shards, batches = _best_of(_draft(instance, space, nodes, placement), cheapest, best)
        if time < best:
            best, winner = time, (spread(instance, nodes, shards), spread(instance, nodes, batches), placement)
    if winner is None:
        raise AssertionError("a node with room can always do the job alone")
    return evaluate(instance, *winner, reasons=(f"optimal among {_rows(instance, space)} sets of batches",))


def _check(instance: Instance, space: Room) -> None:
    rows = _rows(instance, space)
    if len(space.nodes) > NODES or rows > ROWS:
        found = f"{len(space.nodes)} nodes with {rows} sets of batches"
        raise InputError(found, remedy=f"exact takes {NODES} nodes and {ROWS} sets; give a shorter ladder, or search")


def _rows(instance: Instance, space: Room) -> int:
    """Sets of batches, a node left out or with one of its rungs, times the placements."""
    sizes = [1 + int(count) for count in space.allowed.sum(axis=0)]
    return int(np.prod([float(size) for size in sizes]) - 1) * len(instance.server_choices)


def _subsets(nodes: Ints) -> Iterator[Ints]:
    sizes = range(1, len(nodes) + 1)
    return (np.array(s, dtype=np.int64) for s in chain.from_iterable(combinations(nodes, size) for size in sizes))


def _draft(instance: Instance, space: Room, nodes: Ints, placement: int) -> Draft:
    """All batches that these nodes may have together, one row each."""
    rows = np.array(list(product(*(space.rungs[space.allowed[:, i]] for i in nodes))), dtype=np.int64)
    flat = np.broadcast_to(nodes, rows.shape).ravel()
    return Draft(
        instance=instance, nodes=nodes, batches=rows,
        compute=instance.performance.compute_seconds(flat, rows.ravel()).reshape(rows.shape),
        update=_updates(instance, nodes, rows, instance.server_choices[placement]),
        send=instance.transfer_s_per_sample[instance.nearest[nodes], nodes],
    )  # fmt: skip


def _updates(instance: Instance, nodes: Ints, rows: Ints, servers: Placement) -> Floats:
    """In one call where the performance takes many rows, else row by row."""
    ask = instance.performance.update_seconds
    last = ask(nodes, rows[-1], servers)
    try:
        found = np.asarray(ask(nodes, rows, servers))
        if found.shape == rows.shape and np.array_equal(found[-1], last):
            return found
    except (ValueError, IndexError, TypeError):
        pass
    return np.array([ask(nodes, row, servers) for row in rows])


def _cheapest(instance: Instance) -> Floats:
    """(nodes, batch) the least seconds per sample with any batch up to this one."""
    sizes = np.arange(1, int(instance.rungs[-1]) + 1)
    nodes = np.repeat(instance.nodes, len(sizes))
    table = instance.performance.compute_seconds(nodes, np.tile(sizes, len(instance.names)))
    return np.asarray(np.minimum.accumulate(table.reshape(len(instance.names), -1), axis=1))


def _bounds(one: Draft, cheapest: Floats) -> Floats:
    return relaxed(replace(one, compute=cheapest[one.nodes, one.batches - 1]))


def _best_of(one: Draft, cheapest: Floats, best: float) -> tuple[float, Ints, Ints]:
    """The best row that beats ``best``, in blocks by rising bound."""
    bounds = _bounds(one, cheapest)
    order = np.argsort(bounds, kind="stable")
    found = one.batches[0], one.batches[0]
    for at in range(0, len(order), BLOCK):
        rows = order[at : at + BLOCK]
        rows = rows[bounds[rows] < best * (1 - EVEN)]
        if not len(rows):
            break
        part = one.rows(rows)
        times, shards = whole(part)
        row = int(np.argmin(times))
        if times[row] < best:
            best, found = float(times[row]), (shards[row], part.batches[row])
    return best, *found
