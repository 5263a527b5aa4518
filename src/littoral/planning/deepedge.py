"""Deep-Edge's Algorithm 1 as printed and repaired, and the fair scheduler it was compared with.

Bhattacharjee et al., "Deep-Edge: An Efficient Framework for Deep Learning Model Update on Heterogeneous Edge", IC2E
2020. Shards in proportion to speed, batches as large as fit, the slowest worker dropped again and again, the best round
wins. Numbers in comments are those of the defects repaired, in the order in which ``tests/planning/test_deepedge.py``
shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from littoral.errors import Infeasible
from littoral.planning.instance import Array, Floats, Instance, Ints, Scheme, evaluate
from littoral.planning.room import Room, room
from littoral.planning.shards import Draft, apportioned, draft, fractions, relaxed, spread
from littoral.planning.simple import alone, solve_fair

__all__ = ["solve", "solve_fair", "solve_paper"]

TAU = 20  # inner rounds at most
EPSILON = 0.5  # samples of change that end the inner rounds
BETTER = 1 - 1e-9  # 14: equal is not better
CROWD = 50  # with twice as many workers or more, one in so many is dropped at once
JUDGED = 32  # up to so many workers, the most harmful one is dropped in a second descent

Drop = Callable[[Draft, Ints, int], Ints]  # whom to drop, of the workers of a placement


def solve(instance: Instance, placement: int = 0) -> Scheme:
    """The repaired algorithm, for one placement of servers; raises ``Infeasible`` where nobody has room (2).

    Never worse than equal shards on the nodes that have room, nor than any of them alone.
    """
    space = room(instance)  # 4, 5, 6: constraints come before sharding, for all nodes at once, and depend on the batch
    drops: list[Drop] = [slowest] if len(space.nodes) > JUDGED else [slowest, most_harmful]
    schemes = chain.from_iterable(_rounds(instance, space, placement, drop) for drop in drops)
    best = alone(instance, space, placement)
    for scheme in chain([solve_fair(instance, placement=placement, feasible=True)], schemes):
        if scheme.total_s < best.total_s * BETTER:
            best = scheme
    return best


def _rounds(instance: Instance, space: Room, placement: int, drop: Drop) -> Iterator[Scheme]:
    """Scheme after scheme with ever fewer workers, down to one (11): at most N rounds of ``TAU``."""
    workers = space.nodes
    while len(workers):
        batches, one = settle(instance, space, workers, placement)
        empty = workers[batches == 0]
        if len(empty):  # 7, 8: a share smaller than any batch the node may have; the quicker half may stay for now
            slow = empty[np.argsort(one.per_sample()[0, empty], kind="stable")]
            workers = np.setdiff1d(workers, slow[len(slow) // 2 :])
            continue
        scheme = _rounded(instance, space, workers, batches, placement)
        if scheme is not None:
            yield scheme
        workers = np.setdiff1d(workers, drop(one, workers, placement))


def settle(instance: Instance, space: Room, workers: Ints, placement: int) -> tuple[Ints, Draft]:
    """Batches that fit the shares they lead to, 0 where a share is too small, after ``TAU`` rounds at most.

    9, 10: the first batches are what memory and deadlines allow, as if everybody had all samples; shares cap them
    later. 3: rounds are counted anew, and shares are averaged with the last ones once they stop closing in. 13: a
    share is what ends with the others', start-up and transfer included.
    """
    shares, change, damped = np.full(len(workers), float(instance.samples)), np.inf, False
    for _ in range(TAU):
        batches = space.largest(workers, shares + 1e-9)
        held = np.where(batches > 0, batches, space.smallest(workers))
        one = draft(instance, spread(instance, workers, held), placement)
        fresh = fractions(one)[0, workers]
        fresh = (fresh + shares) / 2 if damped else fresh
        last, change = change, float(np.linalg.norm(fresh - shares))
        shares, damped = fresh, damped or change >= last
        if change <= EPSILON:
            break
    return space.largest(workers, shares + 1e-9), one


def _rounded(instance: Instance, space: Room, workers: Ints, batches: Ints, placement: int) -> Scheme | None:
    """1, 7: whole shards for the last batches that sum exactly, batches no larger; None if a shard is too small."""
    shares = fractions(draft(instance, spread(instance, workers, batches), placement))[0, workers]
    shards = apportioned(instance.samples, shares)
    batches = space.largest(workers, np.minimum(batches, shards))
    if (batches == 0).any():
        return None
    every = spread(instance, workers, shards), spread(instance, workers, batches)
    return evaluate(instance, *every, placement, reasons=(f"{len(workers)} of {len(instance.names)} nodes work",))


def slowest(one: Draft, workers: Ints, placement: int) -> Ints:
    """Those that take longest for a sample, as in the paper."""
    order = np.argsort(-one.per_sample()[0, workers], kind="stable")
    return np.asarray(workers[order[: max(1, len(workers) // CROWD)]])


def most_harmful(one: Draft, workers: Ints, placement: int) -> Ints:
    """12: the one without which the others are soonest done; not always the slowest."""
    rows = np.repeat(one.batches, len(workers), axis=0)
    rows[np.arange(len(workers)), workers] = 0
    return np.asarray(workers[[int(np.argmin(relaxed(draft(one.instance, rows, placement))))]])


def solve_paper(instance: Instance, *, placement: int = 0, tau: int = TAU, epsilon: float = EPSILON) -> Scheme:
    """Algorithm 1 as printed, defects and all; what it returns may be wrong: ask ``violations``.

    Guards, each where the printed text would divide by zero or never end: nodes without memory for one sample are
    left out; an empty set of workers ends the search; inner rounds end after ten times N tau of them; infinite shards
    count as all samples; shards become whole numbers at the very end, with the sum they have.
    """
    limit = np.minimum(instance.performance.largest_batch(instance.nodes), instance.batch_most).astype(float)
    state = _Printed(instance=instance, placement=placement, limit=limit, late=_late(instance, limit), tau=tau)
    best, saved = np.inf, None
    while state.converge(epsilon):
        epoch = float((state.d * state.seconds)[state.workers].max())
        if epoch >= best:
            break  # 11: at the first round that is no better
        best, saved = epoch, (state.b.copy(), state.stale.copy())  # 1: not the shards just computed
        state.leave(state.workers[[int(np.argmax(state.seconds[state.workers]))]])
    if saved is None:
        raise Infeasible("Algorithm 1 leaves no worker: with their largest batches, all of them break a deadline")
    shards = np.where(np.isfinite(saved[1]), saved[1], float(instance.samples))
    shards = apportioned(round(float(shards.sum())), shards)
    batches = np.where(shards > 0, np.maximum(np.floor(saved[0]), 1), 0).astype(np.int64)
    return evaluate(instance, shards, batches, placement, reasons=("as printed",))


def _late(instance: Instance, limit: Floats) -> Array:
    """5: whether a node breaks a deadline, whatever its batch turns out to be."""
    late = instance.performance.latencies(instance.nodes, np.maximum(limit, 1)) > instance.deadlines
    return np.asarray(late.any(axis=1))


class _Printed:
    """The variables of the printed algorithm; line numbers are the paper's."""

    def __init__(self, *, instance: Instance, placement: int, limit: Floats, late: Array, tau: int) -> None:
        self.instance, self.servers, self.limit, self.late = instance, instance.server_choices[placement], limit, late
        self.workers = np.flatnonzero(limit >= 1)
        self.tau, self.rounds, self.guard = tau, 0, 10 * tau * len(limit)
        self.d = np.full(len(limit), np.inf)
        self.stale, self.b, self.seconds = self.d.copy(), np.zeros(len(limit)), np.zeros(len(limit))

    def leave(self, workers: Ints) -> None:
        self.workers = np.setdiff1d(self.workers, workers)
        self.b[workers] = self.d[workers] = 0.0

    def converge(self, epsilon: float) -> bool:
        """Lines 5 to 28; whether a worker is left."""
        while len(self.workers):
            self._share()
            self.leave(self.workers[self.late[self.workers]])  # 4: after sharding
            self.rounds += 1  # 3: never reset
            with np.errstate(invalid="ignore"):
                change = np.linalg.norm(self.d - self.stale)  # 10: inf - inf
            if change <= epsilon or self.rounds == self.tau or self.rounds >= self.guard:
                break
            self.stale = self.d.copy()
        return len(self.workers) > 0

    def _share(self) -> None:
        """Lines 6 to 10."""
        w, performance = self.workers, self.instance.performance
        self.b[w] = np.minimum(self.limit[w], self.d[w])  # 8, 9: no least batch; capped by the last round's shard
        update = performance.update_seconds(w, self.b[w], self.servers)
        self.seconds[w] = performance.compute_seconds(w, self.b[w]) + update / self.b[w]  # 13: no start, no transfer
        self.d[w] = self.instance.samples / (self.seconds[w] * (1.0 / self.seconds[w]).sum())
