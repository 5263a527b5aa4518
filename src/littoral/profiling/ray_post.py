"""Posts on the machines of a Ray cluster, each an actor there. Windows are told in each machine's own clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from littoral.continuum.app import App
from littoral.continuum.device import Device
from littoral.errors import LittoralError, RunFailed
from littoral.profiling.post import LocalPost
from littoral.profiling.rows import State
from littoral.profiling.stressors import Stress
from littoral.worlds.ray.cluster import Cluster, ray_module

_GLANCES = 5  # at the other clock; the quickest counts
_PATIENCE_S = 120.0


class Attendant(LocalPost):
    """The actor."""

    def open(self) -> None:
        """Begin."""
        self.__enter__()

    def close(self) -> None:
        """End."""
        self.__exit__(None, None, None)


class RayPost:
    """A post elsewhere."""

    def __init__(self, cluster: Cluster, device: Device, apps: Sequence[App], seed: int, shake: float) -> None:
        self._cluster, self._device, self._apps, self._seed, self._shake = cluster, device, apps, seed, shake
        self._shift = 0.0  # of its clock against ours

    def __enter__(self) -> RayPost:
        ray = ray_module()
        made = ray.remote(Attendant).options(num_cpus=0, max_restarts=0, **self._cluster.pin(self._device.name))
        self._actor = made.remote(self._device, tuple(self._apps), None, 1.0, self._seed, self._shake)
        try:
            self._ask("open")
            self._shift = min((self._glance() for _ in range(_GLANCES)), key=lambda glance: glance[0])[1]
        except BaseException:
            ray.kill(self._actor)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._ask("close")
        finally:
            ray_module().kill(self._actor)

    def wait_ready(self) -> None:
        self._ask("wait_ready")

    def stress(self, stress: Stress) -> None:
        self._ask("stress", stress)

    def relax(self, *, check: bool) -> None:
        self._ask("relax", check=check)

    def state(self, start: float, end: float, quantile: float | None) -> State:
        found: State = self._ask("state", start + self._shift, end + self._shift, quantile)
        return found

    def latencies(self, start: float, end: float) -> dict[str, list[float]]:
        found: dict[str, list[float]] = self._ask("latencies", start + self._shift, end + self._shift)
        return found

    def _glance(self) -> tuple[float, float]:
        """How long asking for the time took, and how far ahead the other clock then was."""
        asked = time.monotonic()
        there = self._ask("now")
        took = time.monotonic() - asked
        return took, there - (asked + took / 2)

    def _ask(self, name: str, *arguments: Any, **named: Any) -> Any:
        ray = ray_module()
        promise = getattr(self._actor, name).remote(*arguments, **named)
        try:
            return ray.get(promise, timeout=_PATIENCE_S)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, LittoralError) else RunFailed(f"{self._device.name}: {cause}") from error
        except ray.exceptions.RayError as error:
            raise RunFailed(f"{self._device.name} is out of reach: {type(error).__name__}") from error
