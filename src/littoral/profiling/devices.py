"""One device to read: this machine, the container around this process, or a place in a lab."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from littoral.profiling.cards import Card
from littoral.profiling.groups import Groups
from littoral.profiling.limits import own_limits
from littoral.profiling.readings import Machine, Reading, Watched, fields, network_bytes, stall_seconds

if TYPE_CHECKING:
    from littoral.worlds.lab.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a device has: cores (a quota may be less than one), memory, and how much of it is free."""

    cores: float
    memory_bytes: float
    free_bytes: float


class Device:
    """Reads a device. Where control groups limit it, shares are of these limits; close it after use."""

    def __init__(self, place: Place | None = None, card: int | None = 0) -> None:
        self._machine, self._card = Machine(), Card(card)
        self._groups = Groups(own_limits() if place is None else map(Path, place.cgroups))
        self._apart = bool(place and place.netns)
        self._network: Watched | None = None

    def read(self, at: float) -> Reading:
        """Everything it tells now."""
        reading = self._machine.read(at)
        gpu, gpu_memory = self._card.read()
        reading = replace(reading, gpu=gpu, gpu_memory=gpu_memory)
        if self._apart:
            reading = replace(reading, network_bytes=self._carried())
        return self._in_memory(self._in_quota(reading))

    def size(self) -> Size:
        """What it has now; quotas may change."""
        total, free = machine_memory()
        limit = self._groups.memory_bytes.now(total)
        used = self._groups.used_bytes() if self._groups.memory else None
        return Size(
            cores=self._groups.cores.now(self._machine.cores),
            memory_bytes=limit,
            free_bytes=free if used is None else min(free, limit - used),
        )

    def close(self) -> None:
        for part in (self._machine, self._card, self._groups, self._network):
            if part is not None:
                part.close()

    def _in_quota(self, reading: Reading) -> Reading:
        groups = self._groups
        if groups.cpu is None:
            return reading
        cpu_s, held_s, waited_s = groups.times()
        return replace(
            reading,
            cores=groups.cores.now(reading.cores),
            cpu_s=cpu_s,
            held_s=held_s,
            waited_s=waited_s,
            queued_s=stall_seconds(groups.queued.text()),
            runnable=None,
            disk_bytes=groups.disk_bytes(),
        )

    def _in_memory(self, reading: Reading) -> Reading:
        used = self._groups.used_bytes() if self._groups.memory else None
        if used is None:
            return reading
        share = used / self._groups.memory_bytes.now(machine_memory()[0])
        return replace(reading, memory=share, stalled_s=stall_seconds(self._groups.stalled.text()))

    def _carried(self) -> float | None:
        """An open net/dev file stays with the namespace it was opened in, even after that process has ended."""
        if self._network is None:
            self._network = _first(Watched(f"/proc/{pid}/net/dev") for pid in self._groups.processes())
        return network_bytes(self._network.text()) if self._network else None


def _first(files: Iterable[Watched]) -> Watched | None:
    return next((file for file in files if file.there), None)


def machine_memory() -> tuple[float, float]:
    """Bytes of this machine, and those that are free or could be freed at once."""
    told = Path("/proc/meminfo")
    if told.exists():
        kilobytes = fields(told.read_text())
        return 1024.0 * kilobytes["MemTotal"], 1024.0 * kilobytes["MemAvailable"]
    page = os.sysconf("SC_PAGE_SIZE")
    return float(os.sysconf("SC_PHYS_PAGES") * page), float(os.sysconf("SC_AVPHYS_PAGES") * page)


def size_of(place: Place | None) -> Size:
    """What a device has."""
    device = Device(place, None)
    try:
        return device.size()
    finally:
        device.close()
