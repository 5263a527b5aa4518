"""Our solver: which nodes work on how much, in which batches, with which servers and from which store.

It starts from many plain answers (the quickest k nodes, batches up to some size, every placement; and Deep-Edge's
repaired answer) and improves the best few by single changes: another batch for a node, a node dropped, added or
exchanged, another placement. With few nodes every change is weighed in whole samples; with many, groups of nodes that
are alike change together, weighed in fractions. Never worse than ``deepedge.solve``; not proven optimal:
``benchmarks/optimality.py`` measures how far off it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from littoral.errors import InputError
from littoral.planning import frontier
from littoral.planning.deepedge import solve
from littoral.planning.instance import Floats, Instance, Ints, Scheme, evaluate
from littoral.planning.neighbours import CELLS, FEW, SOME, changes
from littoral.planning.polish import polished
from littoral.planning.responses import responses
from littoral.planning.room import Room, room
from littoral.planning.shards import draft, relaxed, whole

STARTS = 4  # answers that are improved
SIZES = 40  # numbers of workers that are tried
CAPS = 12  # largest batches that are tried
SPREAD = 1.2  # how much slower than the best start others may be
SWEEPS = 12  # improvements of one answer

Answer = tuple[float, int, Ints]  # seconds, placement, batches (0: left out)
Objective = Literal["makespan", "cost", "fairness"]


def search(
    instance: Instance, objective: Objective = "makespan", *, time_limit_s: float | None = None,
    cost_limit_usd: float | None = None, fairness_floor: float | None = None,
) -> Scheme:  # fmt: skip
    """The best scheme found for the objective that keeps the limits; raises ``Infeasible`` naming what binds."""
    if objective not in ("makespan", "cost", "fairness"):
        raise InputError(f"unknown objective {objective!r}", remedy="give makespan, cost or fairness", key="objective")
    limits = frontier.Limits(time_s=time_limit_s, cost_usd=cost_limit_usd, fairness=fairness_floor)
    space = room(instance)
    quickest = soonest_done(instance, space)
    if objective == "makespan" and limits.kept(quickest, space.nodes):
        return quickest
    pool = frontier.candidates(instance, space, quickest, time_limit_s)

    def judge(scheme: Scheme) -> tuple[float, ...]:
        kept = limits.kept(scheme, space.nodes)
        return float(not kept), *frontier.merit(scheme, space.nodes, objective)

    best = min(pool, key=judge)
    if not limits.kept(best, space.nodes):
        raise limits.refusal(pool, space.nodes)
    return polished(instance, space, best, judge) if len(instance.names) <= FEW else best


def pareto(instance: Instance, points: int = 20) -> list[Scheme]:
    """Schemes of which none is better than another in time, cost and fairness at once, the quickest first."""
    space = room(instance)
    pool = frontier.candidates(instance, space, soonest_done(instance, space), None)
    return frontier.thinned(frontier.undominated(pool, space.nodes), points)


def soonest_done(instance: Instance, space: Room) -> Scheme:
    """The scheme with the least total time that the search finds."""
    known = solve(instance)
    answers = [improved(instance, space, answer) for answer in _starts(instance, space, known)]
    schemes = [known, *(scheme for answer in answers if (scheme := completed(instance, answer)) is not None)]
    return min(schemes, key=lambda scheme: scheme.total_s)


def completed(instance: Instance, answer: Answer) -> Scheme | None:
    """The answer with its best whole shards; None if there are too few samples for its batches."""
    _, placement, batches = answer
    times, shards = whole(draft(instance, batches, placement))
    if not np.isfinite(times[0]):
        return None
    count = int((batches > 0).sum())
    reason = f"{count} of {len(batches)} nodes work; placement {placement + 1} of {len(instance.server_choices)}"
    return evaluate(instance, shards[0], batches, placement, reasons=(reason,))


def weighed(instance: Instance, placement: int, rows: Ints, bar: float = np.inf) -> Floats:
    """Seconds of each row of batches: in fractions for many nodes, in whole samples for few; inf if not below ``bar``.

    Whole samples take longer to weigh, so rows that are too slow even in fractions are spared it.
    """
    one = draft(instance, rows, placement)
    seconds = relaxed(one)
    if rows.shape[1] <= FEW:
        worth = np.flatnonzero(seconds < bar)
        seconds = np.full(len(rows), np.inf)
        seconds[worth] = whole(one.rows(worth))[0]
    return seconds


def _starts(instance: Instance, space: Room, known: Scheme) -> list[Answer]:
    """The best plain answers, of each placement its best first, and the known one."""
    best: list[Answer] = []
    for placement in range(len(instance.server_choices)):
        found: list[Answer] = []
        for rows in _plain(instance, space, placement):
            seconds = weighed(instance, placement, rows, SPREAD * min((one[0] for one in found), default=np.inf))
            found += [(float(seconds[i]), placement, rows[i]) for i in np.argsort(seconds, kind="stable")[:2]]
        best += (found := sorted(found, key=lambda answer: answer[0])[:STARTS])
        if np.isfinite(found[0][0]):
            rows = np.array(list(responses(instance, space, placement, found[0][2], found[0][0])))
            best.append(_best_row(instance, placement, rows))
    batches = np.array(known.batches)
    best.append((float(weighed(instance, known.servers, batches[None])[0]), known.servers, batches))
    return sorted(best, key=lambda answer: answer[0])[: STARTS if len(batches) <= SOME else STARTS // 2]


def _plain(instance: Instance, space: Room, placement: int) -> Iterator[Ints]:
    """The quickest k nodes, for every k, with the largest batches up to a cap, for every cap; in blocks of rows."""
    n = len(instance.names)
    caps = space.rungs[np.unique(np.linspace(0, len(space.rungs) - 1, CAPS).round().astype(np.int64))]
    sizes = np.unique(np.geomspace(1, len(space.nodes), min(SIZES, len(space.nodes))).round().astype(np.int64))
    sizes = np.arange(1, len(space.nodes) + 1) if len(space.nodes) <= SIZES else sizes
    for cap in caps:
        batches = space.largest(instance.nodes, cap)
        if not batches.any():
            continue
        order = np.argsort(draft(instance, batches, placement).per_sample()[0], kind="stable")
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        block = max(1, CELLS // n)
        for at in range(0, len(sizes), block):
            yield np.where(rank < sizes[at : at + block, None], batches, 0)


def improved(instance: Instance, space: Room, answer: Answer) -> Answer:
    """The answer after the best change, and the best after that, until none helps."""
    for _ in range(SWEEPS if len(instance.names) > FEW else 10 * SWEEPS):
        better = _better(instance, space, answer)
        if better is None:
            break
        answer = better
    return answer


def _better(instance: Instance, space: Room, answer: Answer) -> Answer | None:
    """The best of all changes, if it is better; fine ones are tried only where no coarse one helps."""
    seconds, placement, batches = answer
    moves = [(p, batches[None]) for p in range(len(instance.server_choices)) if p != placement]
    if len(batches) <= SOME:
        moves.append((placement, np.array(list(responses(instance, space, placement, batches, seconds)))))
    for coarse in (True, False):
        moves += [(placement, rows) for rows in changes(instance, space, placement, batches, coarse=coarse)]
        best = min((_best_row(instance, p, rows, seconds) for p, rows in moves), key=lambda one: one[0], default=answer)
        if best[0] < seconds * (1 - 1e-9):
            return best
        moves = []
    return None


def _best_row(instance: Instance, placement: int, rows: Ints, bar: float = np.inf) -> Answer:
    seconds = weighed(instance, placement, rows, bar)
    best = int(np.argmin(seconds))
    return float(seconds[best]), placement, rows[best]
