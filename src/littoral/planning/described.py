"""What is foretold of the nodes of a continuum where nothing was measured: its description, for thousands at once.

compute_i(b) = (per_sample_i + fixed_i / b) / pace_i                  load and apps slow a step down by its pace
update_i     = messages there and back, alone + update + wait
wait         = D rho / (2 (1 - rho)),  rho = D sum_k 1 / cycle_k      the queue at the server's port; D: its time for
                                                                     one worker's messages
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from littoral.learning.task import Footprint
from littoral.planning import paces
from littoral.planning.instance import Array, Floats, Ints, Placement
from littoral.planning.paces import Setting

_HALVINGS = 40
_FEW = 32  # nodes: plain numbers are quicker than arrays of so few


class DescribedPerformance:
    """``servers`` are the devices that placements count through."""

    def __init__(self, setting: Setting, devices: Sequence[str], servers: Sequence[str], footprint: Footprint) -> None:
        continuum = setting.continuum
        described = [continuum.device(name) for name in devices]
        self._pace = np.array([paces.training_pace(d, continuum.apps_on(d.name)) for d in described])
        self._each = np.array([d.step.per_sample(setting.task) for d in described])
        self._fixed = np.array([d.step.fixed_seconds for d in described])
        self._largest = np.array([d.largest_batch(footprint) for d in described])
        self._latencies = _latencies(setting, devices)
        self._setting, self._devices, self._servers = setting, tuple(devices), tuple(servers)
        self._alone: dict[Placement, tuple[Floats, float]] = {}

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        return np.asarray((self._each[nodes] + self._fixed[nodes] / batches) / self._pace[nodes])

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        alone, port_s = self._exchange(servers)
        cycle = batches * self.compute_seconds(nodes, batches) + alone[nodes]
        if not port_s:
            return np.asarray(alone[nodes] + np.zeros_like(cycle))
        if cycle.ndim == 1 and len(cycle) <= _FEW:
            return np.asarray(alone[nodes] + _wait(cycle.tolist(), port_s))
        return np.asarray(alone[nodes] + _waits(cycle, port_s)[..., None])

    def largest_batch(self, nodes: Ints) -> Ints:
        return self._largest[nodes].astype(np.int64)

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        """Training takes all it can get whatever its batch."""
        return self._latencies[nodes]

    def _exchange(self, servers: Placement) -> tuple[Floats, float]:
        """Each node's messages alone, and the seconds that a server's port is busy with them."""
        if servers not in self._alone:
            size = self._setting.width * self._setting.task.vector_bytes / 4 / len(servers)
            places = [self._servers[number] for number in servers]
            self._alone[servers] = self._seconds(places, size), max(self._port(place, size) for place in places)
        return self._alone[servers]

    def _seconds(self, places: Sequence[str], size: float) -> Floats:
        between = self._setting.routes.between
        both = np.array([
            [between(device, place).seconds(size) + between(place, device).seconds(size) for device in self._devices]
            for place in places
        ])  # fmt: skip
        update = max(paces.update_seconds(self._setting, place, 4 * size / self._setting.width) for place in places)
        return np.asarray(both.max(axis=0) + update)

    def _port(self, place: str, size: float) -> float:
        device = self._setting.continuum.device(place)
        return max((size / port.mean() for port in (device.uplink, device.downlink) if port is not None), default=0.0)


def _wait(cycles: Sequence[float], port_s: float) -> float:
    """At a server's port, for workers of such cycles without it: halved down to, for it shrinks what causes it."""
    low, high = 0.0, port_s * (len(cycles) + 1)
    for _ in range(_HALVINGS):
        wait = (low + high) / 2
        arrivals = 0.0
        for cycle in cycles:
            arrivals += 1.0 / (cycle + wait)
        busy = min(port_s * arrivals, 1 - 1e-9)
        if port_s * busy / (2 * (1 - busy)) > wait:
            low = wait
        else:
            high = wait
    return high


def _waits(cycles: Floats, port_s: float) -> Floats:
    """The same for many crews at once, each a row."""
    low, high = np.zeros(cycles.shape[:-1]), np.full(cycles.shape[:-1], port_s * (cycles.shape[-1] + 1))
    for _ in range(_HALVINGS):
        wait = (low + high) / 2
        busy = np.minimum(port_s * (1.0 / (cycles + wait[..., None])).sum(axis=-1), 1 - 1e-9)
        longer = port_s * busy / (2 * (1 - busy)) > wait
        low, high = np.where(longer, wait, low), np.where(longer, high, wait)
    return high


def _latencies(setting: Setting, devices: Sequence[str]) -> Floats:
    continuum = setting.continuum
    table = np.full((len(devices), len(continuum.apps)), np.nan)
    for row, name in enumerate(devices):
        here = continuum.apps_on(name)
        for column, app in enumerate(continuum.apps):
            if app in here:
                others = [other for other in here if other is not app]
                table[row, column] = paces.app_latency(continuum.device(name), app, others)
    return table
