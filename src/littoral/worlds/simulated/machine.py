"""A device in virtual time: training, background apps and other load share it, and each slows the others.

Everyone on the device runs at the same pace ``speed / crowding(demands)``: nobody suffers while the demands fit, and
all suffer alike beyond. Steps and app periods are jobs of so many seconds of a free device.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any

from littoral.continuum.app import TRAINING_DEMAND, crowding
from littoral.continuum.device import Device
from littoral.worlds.simulated.kernel import Kernel, Resume


class Machine:
    """Processor sharing with a speed that faults may change."""

    def __init__(self, kernel: Kernel, device: Device) -> None:
        self.device = device
        self.speed = 1.0  # set by faults; 0 is a pause
        self.undisturbed = False  # nothing but one worker's steps, ever: they need no sharing
        self._kernel = kernel
        self._load = device.load.at(0.0)
        self._demand = 0.0  # of the jobs running
        self._pace = 0.0
        self._served = 0.0
        self._since = 0.0
        self._order = 0
        self._version = 0
        self._jobs: list[tuple[float, int, float, Resume]] = []  # tag, order, demand, whom to wake
        self._watch(0.0)

    @coroutine
    def work(self, seconds: float, demand: float = TRAINING_DEMAND) -> Generator[float | None, Any, None]:
        """Take ``seconds`` of a free device."""
        if self.undisturbed:
            yield seconds * crowding((demand, self._load))
            return
        self._settle()
        self._order += 1
        heapq.heappush(self._jobs, (self._served + seconds, self._order, demand, self._kernel.current))
        self._demand += demand
        self._repace()
        yield None

    def set_speed(self, speed: float) -> None:
        """From now on everything here runs at ``speed`` times its pace."""
        self._settle()
        self.speed = speed
        self._repace()

    def forget(self, tasks: set[Resume]) -> None:
        """The jobs of these tasks are gone."""
        self._settle()
        self._jobs = [job for job in self._jobs if job[3] not in tasks]
        heapq.heapify(self._jobs)
        self._demand = sum(job[2] for job in self._jobs)
        self._repace()

    def _watch(self, now: float) -> None:
        change = self.device.load.next_change(now)
        if math.isfinite(change):
            self._kernel.call_at(change, self._load_due)

    def _load_due(self, _: None) -> None:
        self._settle()
        self._load = self.device.load.at(self._kernel.now)
        self._repace()
        self._watch(self._kernel.now)

    def _settle(self) -> None:
        now = self._kernel.now
        self._served += self._pace * (now - self._since)
        self._since = now

    def _repace(self) -> None:
        """Set the pace for the present jobs and the wake-up of the one that ends first."""
        self._pace = self.speed / crowding([self._demand, self._load])
        self._version += 1
        if self._jobs and self._pace > 0:
            wait = max(0.0, self._jobs[0][0] - self._served) / self._pace
            self._kernel.call_at(self._kernel.now + wait, self._due, self._version)

    def _due(self, version: int) -> Any:
        if version != self._version:
            return None
        self._settle()
        tag, _, demand, wake = heapq.heappop(self._jobs)
        self._served = max(self._served, tag)  # what rounding left over
        self._demand = self._demand - demand if self._jobs else 0.0
        self._repace()
        self._kernel._current = wake  # resume it within this very event: its next trap becomes ours
        return wake(None)


def noise(device: Device, draw: Callable[[float, float], float]) -> float:
    """A factor around 1 with the device's spread: log-normal, so that a step never takes negative time."""
    if device.jitter == 0.0:
        return 1.0
    sigma = math.sqrt(math.log1p(device.jitter**2))
    return draw(-sigma * sigma / 2, sigma)
