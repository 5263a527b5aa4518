"""What is foretold of the nodes from measurements: a profile's estimators, asked for all nodes of a kind at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from littoral.planning.instance import Array, Floats, Ints, Placement
from littoral.profiling.estimators import Estimators
from littoral.profiling.features import Company
from littoral.profiling.rows import State

MEMORY = 0.9  # of a device that training may fill with everything else on it


class ProfiledPerformance:
    """Nodes by kind and present state. ``apps`` are those of the instance, each with the nodes it runs on.

    Several servers share the work of one: their update takes as long as the slowest of them would, divided by their
    number. That division is assumed, not measured.
    """

    def __init__(
        self, estimators: Mapping[str, Estimators], kinds: Sequence[str], states: Sequence[State],
        servers: Sequence[State], apps: Sequence[tuple[str, frozenset[int]]] = (), *, level: float = 0.9,
    ) -> None:  # fmt: skip
        self._estimators, self._kinds, self._states = estimators, np.array(kinds), list(states)
        self._servers, self._apps, self._level = list(servers), list(apps), level

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        return self._by_kind(nodes, batches, lambda one, states, b: one.compute_time(states, b).mean)

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        if np.ndim(batches) > 1:
            return np.stack([self.update_seconds(nodes, row, servers) for row in np.asarray(batches)])
        company = Company.of([int(batch) for batch in np.asarray(batches)])
        each = [
            self._by_kind(nodes, batches, lambda one, states, b, at=at: one.update_time(states, b, at, company).mean)
            for at in (self._servers[number] for number in servers)
        ]
        return np.asarray(np.max(each, axis=0) / len(servers))

    def largest_batch(self, nodes: Ints) -> Ints:
        found = self._by_kind(nodes, np.ones(len(nodes)), lambda one, states, b: one.max_batch(states, limit=MEMORY))
        return found.astype(np.int64)

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        """The upper ends of the intervals, in the state that training will bring about."""
        table = np.full((len(nodes), len(self._apps)), np.nan)
        for column, (app, places) in enumerate(self._apps):
            here = np.array([node in places for node in nodes.tolist()], dtype=bool)
            if here.any():
                table[here, column] = self._by_kind(
                    nodes[here], np.asarray(batches)[here],
                    lambda one, states, b, app=app: one.exec_time(app, one.after(states, b), level=self._level).high,
                )  # fmt: skip
        return table

    def _by_kind(self, nodes: Ints, batches: Array, ask: Callable[..., Any]) -> Floats:
        answer = np.empty(len(nodes))
        for kind in np.unique(self._kinds[nodes]):
            mine = np.flatnonzero(self._kinds[nodes] == kind)
            states = [self._states[node] for node in nodes[mine]]
            answer[mine] = ask(self._estimators[str(kind)], states, np.asarray(batches, dtype=float)[mine])
        return answer
