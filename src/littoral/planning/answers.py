"""Answers that are given once: solvers ask for the same few batches of the same nodes thousands of times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from littoral.planning.instance import Array, Floats, Ints

Ask = Callable[[Ints, Ints], Floats]  # of so many nodes, each with its batch


class Answers:
    """What ``ask`` says of nodes by whole batches. A batch that is new is asked about for all nodes at once."""

    def __init__(self, nodes: Ints, ask: Ask) -> None:
        self._nodes, self._ask = nodes, ask
        self._place = np.full(1, -1)  # by batch: where its answers are
        self._known: Floats | None = None  # (batches, nodes, ...)

    def of(self, nodes: Ints, batches: Ints) -> Floats:
        """``nodes`` are places among those that it was made for."""
        if not len(batches):
            return self._ask(self._nodes[nodes], batches)
        if (top := int(batches.max())) >= len(self._place):
            self._place = np.append(self._place, np.full(top + 1 - len(self._place), -1))
        places = self._place[batches]
        if places.min() < 0:
            self._learn(np.unique(batches[places < 0]))
            places = self._place[batches]
        assert self._known is not None
        return np.asarray(self._known[places, nodes])

    def _learn(self, batches: Ints) -> None:
        crowd, sizes = np.tile(self._nodes, len(batches)), np.repeat(batches, len(self._nodes))
        fresh = self._ask(crowd, sizes)
        fresh = fresh.reshape(len(batches), len(self._nodes), *fresh.shape[1:])
        before = 0 if self._known is None else len(self._known)
        self._known = fresh if self._known is None else np.concatenate([self._known, fresh])
        self._place[batches] = before + np.arange(len(batches))


def whole(batches: Array) -> Ints | None:
    """Batches as whole numbers; None if they are not."""
    found = np.asarray(batches)
    if np.issubdtype(found.dtype, np.integer):
        return found
    rounded = found.astype(np.int64)
    return rounded if (rounded == found).all() else None
