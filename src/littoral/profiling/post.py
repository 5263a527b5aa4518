"""Somebody on a device who reads its state, stresses it and runs its apps, while others train there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from littoral.continuum.app import App
from littoral.continuum.device import Device
from littoral.profiling.appbench import AppBench
from littoral.profiling.pacer import Pacer
from littoral.profiling.probe import Probe
from littoral.profiling.rows import State
from littoral.profiling.stress import Running, stressed
from littoral.profiling.stressors import Stress
from littoral.worlds.lab.places import Place


class Post(Protocol):
    """A device's attendant, from entering to leaving the context. Times are on this machine's monotonic clock."""

    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def wait_ready(self) -> None:
        """Until every app has finished a period."""
        ...

    def stress(self, stress: Stress) -> None:
        """Stress the device until told to ``relax``."""
        ...

    def relax(self, *, check: bool) -> None:
        """End the stress; with ``check``, raises RunFailed if it had ended before."""
        ...

    def state(self, start: float, end: float, quantile: float | None) -> State:
        """The device's state in a window: a quantile of each metric, None for means."""
        ...

    def latencies(self, start: float, end: float) -> dict[str, list[float]]:
        """What each app's periods took in a window."""
        ...


class LocalPost:
    """A post on this machine, or in a place of its lab."""

    def __init__(
        self, device: Device, apps: Sequence[App], place: Place | None, cores: float, seed: int, shake: float
    ) -> None:
        self._device, self._place = device, place
        self._cores = None if place is None else cores
        self._probe, self._pacer = Probe(place, card=device.card), Pacer(place)
        self._apps = [AppBench(app, device.name, place, cores=cores, seed=seed, shake=shake) for app in apps]
        self._stack, self._stresses = ExitStack(), ExitStack()
        self._running: Running | None = None
        self._rate = 0.0  # of memory that the present or last stress was told to read and write, bytes/s

    def __enter__(self) -> LocalPost:
        with ExitStack() as stack:
            stack.enter_context(self._probe)
            stack.enter_context(self._pacer)
            for app in self._apps:
                stack.enter_context(app)
            stack.callback(self.relax, check=False)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def now(self) -> float:
        """This machine's clock."""
        return time.monotonic()

    def wait_ready(self) -> None:
        for app in self._apps:
            app.wait_ready()

    def stress(self, stress: Stress) -> None:
        self.relax(check=False)
        self._rate = 0.0
        if stress != Stress():
            running = stressed(stress, self._place, cores=self._cores, card=self._device.card or 0)
            self._running = self._stresses.enter_context(running)
            self._rate = self._running.memory_bytes_per_s

    def relax(self, *, check: bool) -> None:
        running, self._running = self._running, None
        try:
            if check and running is not None:
                running.check()
        finally:
            self._stresses.close()

    def state(self, start: float, end: float, quantile: float | None) -> State:
        found, pace = self._probe.summary(start, end, quantile), self._pacer.pace(start, end)
        return replace(found, memory_bytes_per_s=self._rate, pace=pace)

    def latencies(self, start: float, end: float) -> dict[str, list[float]]:
        return {bench.app.name: bench.latencies(start, end) for bench in self._apps}
