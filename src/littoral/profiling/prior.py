"""Guesses for a device kind or task that nobody measured: the catalogue, the task's weight, and a wide interval.

The same columns go in as into what is learned, and the same signs hold. Apps have no such prior.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from littoral.continuum.catalogue import Kind
from littoral.continuum.device import StepTime, Workload
from littoral.profiling.features import Floats, function

SPREAD = 3.0  # nine in ten measurements are believed to lie within this factor, either way
_FULLEST = 0.97
_OWN_MEMORY = {"gpu", "cloud-gpu", "tpu"}  # families whose memory is the accelerator's own


class Prior:
    """One function's guess; see ``conformal.Calibrated`` for the same promise kept by measurements."""

    known = False

    def __init__(self, name: str, kind: Kind, task: Workload) -> None:
        asked = function(name)
        self.columns, self._most, self._floor = asked.columns, asked.most, asked.floor
        self._name, self._kind, self._task = name, kind, task
        self._step = StepTime(fixed_seconds=kind.fixed_seconds, flops=kind.flops)

    def predict(self, X: Floats) -> Floats:
        """One value per row of all columns."""
        column = dict(zip(self.columns, X.T, strict=True))
        match self._name:
            case "compute":
                return self._compute(column)
            case "update":
                return self._update(column)
            case "memory" | "gpu_memory":
                return np.clip(self._memory(column), 0.0, 1.0)
            case _:
                return self._usage(column)

    def interval(self, X: Floats, level: float = 0.9) -> tuple[Floats, Floats]:
        """Wide: a factor of ``SPREAD`` either way at nine in ten."""
        width = SPREAD ** (NormalDist().inv_cdf((1 + level) / 2) / NormalDist().inv_cdf(0.95))
        raised = self.predict(X) + self._floor
        low, high = raised / width - self._floor, raised * width - self._floor
        return np.clip(low, 0.0, self._most), np.clip(high, 0.0, self._most)

    def _compute(self, column: dict[str, Floats]) -> Floats:
        batch = np.maximum(column["batch"], 1.0)
        alone = self._step.fixed_seconds / batch + self._step.per_sample(self._task)
        return np.asarray(alone / (_free(column["cpu"]) * _free(column["gpu"])))

    def _update(self, column: dict[str, Floats]) -> Floats:
        """There and back over the device's port, behind those of the others who are not computing just then."""
        wire = 2 * self._task.vector_bytes / self._kind.network_bytes_per_s
        batch = np.maximum(column["batch_mean"], 1.0)
        busy = wire / (wire + self._step.fixed_seconds + batch * self._step.per_sample(self._task))
        return np.asarray(wire * (1 + (column["workers"] - 1) * busy) / _free(column["server_cpu"]))

    def _memory(self, column: dict[str, Floats]) -> Floats:
        own = self._kind.family in _OWN_MEMORY
        if own != (self._name == "gpu_memory"):
            return column[self._name]
        taken = 4 * self._task.vector_bytes + column["batch"] * self._task.activation_bytes
        return np.asarray(column[self._name] + taken / self._kind.memory_bytes)

    def _usage(self, column: dict[str, Floats]) -> Floats:
        """Training takes most of what is left of the processor it runs on; queues grow by one."""
        before = column[self._name]
        if self._name == "load":
            return np.asarray(before + 1.0)
        main = "gpu" if "gpu" in self._kind.family else "cpu"
        return np.asarray(before + 0.8 * (1 - before)) if self._name == main else np.asarray(before)


def _free(share: Floats) -> Floats:
    return np.asarray(1.0 - np.clip(share, 0.0, _FULLEST))
