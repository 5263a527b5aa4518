"""Batches one change away from given ones: a node's batch, a node more or less, a node for another.

Few nodes change one by one. Many change in groups of alike: those with the same batch and a similar speed, and those
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from littoral.planning.instance import Instance, Ints
from littoral.planning.room import Room
from littoral.planning.shards import draft

FEW = 16  # up to so many nodes, they change one by one and by pairs
SOME = 128  # up to so many, in groups and one by one
CELLS = 400_000  # numbers in one block of rows
GROUPS = 12  # of speed
STEPS = 6  # batch sizes that a group of many nodes may change to


def changes(instance: Instance, space: Room, placement: int, batches: Ints, *, coarse: bool) -> Iterator[Ints]:
    """Rows of changed batches, in blocks; the coarse changes are cheaper to try than the fine ones."""
    if len(batches) <= FEW:
        rows = _single(space, batches, _others) if coarse else _pairs(space, batches)
    elif coarse:
        rows = _grouped(instance, space, placement, batches)
    else:
        rows = _single(space, batches, _near) if len(batches) <= SOME else iter(())
    while block := list(islice(rows, max(1, CELLS // len(batches)))):
        yield np.array(block)


def _single(space: Room, batches: Ints, options: Callable[[Room, Ints, int], list[int]]) -> Iterator[Ints]:
    """Another batch for every node, or none at all; all batches halved or doubled."""
    for node in space.nodes:
        for batch in options(space, batches, int(node)):
            yield _with(batches, {int(node): batch})
    for factor in (0.5, 2.0):
        scaled = np.where(batches > 0, space.largest(np.arange(len(batches)), batches * factor), 0)
        if scaled.any():
            yield scaled


def _pairs(space: Room, batches: Ints) -> Iterator[Ints]:
    """Two nodes changed at once, by one step each, left out or taken in."""
    near = {int(node): _near(space, batches, int(node)) for node in space.nodes}
    for a in near:
        for b in near:
            if a < b:
                yield from (_with(batches, {a: x, b: y}) for x in near[a] for y in near[b])


def _others(space: Room, batches: Ints, node: int) -> list[int]:
    """Out, and every batch but the present one."""
    own = [0, *space.rungs[space.allowed[:, node]].tolist()]
    return [batch for batch in own if batch != batches[node]]


def _near(space: Room, batches: Ints, node: int) -> list[int]:
    """Out, and the next larger and smaller batch; for a node that is out its largest and smallest."""
    own = space.rungs[space.allowed[:, node]].tolist()
    if not batches[node]:
        return sorted({own[0], own[len(own) // 2], own[-1]})
    at = own.index(int(batches[node])) if int(batches[node]) in own else 0
    return [0, *own[max(at - 1, 0) : at], *own[at + 1 : at + 2]]


def _with(batches: Ints, some: dict[int, int]) -> Ints:
    changed = batches.copy()
    for node, batch in some.items():
        changed[node] = batch
    return changed


def _grouped(instance: Instance, space: Room, placement: int, batches: Ints) -> Iterator[Ints]:
    """Each group of working nodes out or with another batch; the quickest of those left out in."""
    full = np.where(batches > 0, batches, space.largest(instance.nodes, instance.batch_most))
    pace = draft(instance, full, placement).per_sample()[0]
    steps = np.unique(np.linspace(0, len(space.rungs) - 1, STEPS).round().astype(np.int64))
    working, idle = np.flatnonzero(batches), np.flatnonzero((batches == 0) & (full > 0))
    for group in np.array_split(working[np.argsort(pace[working], kind="stable")], min(GROUPS, len(working))):
        yield _replaced(batches, group, np.zeros(len(group), dtype=np.int64))
        for cap in space.rungs[steps]:
            fits = space.largest(group, cap)
            yield _replaced(batches, group, np.where(fits > 0, fits, batches[group]))
    for part in (1, 4, 16, 64):
        some = idle[np.argsort(pace[idle], kind="stable")][: len(idle) // part]
        if len(some):
            yield _replaced(batches, some, full[some])
            yield _replaced(batches, some, space.smallest(some))


def _replaced(batches: Ints, nodes: Ints, values: Ints) -> Ints:
    changed = batches.copy()
    changed[nodes] = values
    return changed
