"""Which batches a node has room for: bounds, memory, and the deadlines of the apps beside the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from littoral.errors import Infeasible
from littoral.planning.instance import Array, Instance, Ints
from littoral.units import show_duration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Room:
    """The allowed batches, as a table; every solver but the printed one chooses from it."""

    rungs: Ints  # rising
    allowed: npt.NDArray[np.bool_]  # (rungs, nodes)

    @property
    def nodes(self) -> Ints:
        """The nodes that can take part with at least one batch size."""
        return np.flatnonzero(self.allowed.any(axis=0))

    def largest(self, nodes: Ints, most: Array | float) -> Ints:
        """The largest allowed batch of each node that is at most ``most``; 0 where there is none."""
        fits = self.allowed[:, nodes] & (self.rungs[:, None] <= np.asarray(most))
        top = len(self.rungs) - 1 - np.argmax(fits[::-1], axis=0)
        return np.where(fits.any(axis=0), self.rungs[top], 0)

    def smallest(self, nodes: Ints) -> Ints:
        """The smallest allowed batch of each node."""
        return np.asarray(self.rungs[np.argmax(self.allowed[:, nodes], axis=0)])


def room(instance: Instance) -> Room:
    """The table for an instance; refuses, and names what binds, where no node has room for any batch."""
    rungs, nodes = instance.rungs, instance.nodes
    allowed: npt.NDArray[Any] = rungs[:, None] <= instance.performance.largest_batch(nodes)
    allowed &= (rungs <= instance.samples)[:, None]
    if instance.apps:
        for row, rung in zip(allowed, rungs, strict=True):
            late = instance.performance.latencies(nodes, np.full(len(nodes), rung)) > instance.deadlines
            row &= ~late.any(axis=1)
    if not allowed.any():
        raise refusal(instance)
    return Room(rungs=rungs, allowed=allowed)


def refusal(instance: Instance) -> Infeasible:
    """Why nobody can take part: the app and device that come closest to their deadline, or memory, or the data."""
    rungs, nodes = instance.rungs, instance.nodes
    if not len(rungs) or rungs[0] > instance.samples:
        least = rungs[0] if len(rungs) else instance.batch_least
        return Infeasible(f"the least batch binds: {least} samples of {instance.samples}; allow smaller batches")
    most = instance.performance.largest_batch(nodes)
    if (most < rungs[0]).all():
        i = int(np.argmax(most))
        return Infeasible(
            f"memory of device {instance.names[i]!r} binds: it has room for a batch of {most[i]}, and the least is "
            f"{rungs[0]}; free memory, or train a smaller model"
        )
    fits = np.flatnonzero(most >= rungs[0])
    expected = instance.performance.latencies(fits, np.full(len(fits), rungs[0]))
    excess = np.where(expected > instance.deadlines[fits], expected / instance.deadlines[fits], 0.0)
    i, a = int(np.argmin(excess.max(axis=1))), int(np.argmax(excess[np.argmin(excess.max(axis=1))]))
    return Infeasible(
        f"app {instance.apps[a]!r} on device {instance.names[fits[i]]!r} binds: it takes up to "
        f"{show_duration(float(expected[i, a]))} beside training with a batch of {rungs[0]}, and its deadline is "
        f"{show_duration(float(instance.deadlines[fits[i], a]))}; give it more time, or move it"
    )
