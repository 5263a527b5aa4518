"""Outer optimisers: what a round of local steps changed counts as a gradient of the model that they began with.

``slope`` is that pseudo-gradient, old minus new. Vectors are never changed in place: they may be on their way to
somebody. The elements from ``trained`` on are carried statistics, such as a norm's running variance: they take the
plain mean, since momentum would carry them beyond what anybody has measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, kw_only=True)
class Nesterov:
    """m = mu m + slope; vector - lr (slope + mu m), as in torch. Without momentum and with lr 1: the mean itself."""

    lr: float
    momentum: float
    trained: int
    memory: Any = None

    def step(self, vector: Any, slope: Any) -> Any:
        """The vector after a step."""
        ahead = slope
        if self.momentum:
            self.memory = slope if self.memory is None else self.memory * self.momentum + slope
            ahead = slope + self.memory * self.momentum
        return _carried(vector - ahead * self.lr, vector, slope, self.trained)


@dataclass(slots=True, kw_only=True)
class DelayedNesterov:
    """Liu et al. (2024), for slopes that arrive one by one: each moves the vector at once, momentum every ``every``-th.

    Momentum on single stale slopes is what makes asynchronous training go astray. ``every`` arrivals together move
    the vector as one step of ``Nesterov`` by their sum does; their weights are the caller's, and should sum to one.
    """

    lr: float
    momentum: float
    trained: int
    every: int
    memory: Any = None
    arrivals: int = 0
    _sum: Any = None

    def step(self, vector: Any, slope: Any) -> Any:
        """The vector after one arrival."""
        moved = vector - slope * self.lr
        if self.momentum:
            self._sum = slope if self._sum is None else self._sum + slope
            self.arrivals += 1
            if self.arrivals == self.every:
                self.memory = self._sum if self.memory is None else self.memory * self.momentum + self._sum
                moved = moved - self.memory * (self.lr * self.momentum)
                self.arrivals, self._sum = 0, None
        return _carried(moved, vector, slope, self.trained)


def _carried(moved: Any, vector: Any, slope: Any, trained: int) -> Any:
    """``moved``, a fresh vector, with statistics that moved by the slope and no further."""
    if trained < len(moved):
        rest = slice(max(trained, 0), len(moved))
        moved[rest] = vector[rest] - slope[rest]
    return moved
