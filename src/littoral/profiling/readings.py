"""Raw counters and gauges of a device at one moment, from /proc, control groups, psutil and NVML.

Counters only grow (unless a device restarts); what they mean per second is worked out by the probe.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")  # not there, or counted by what lies below them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A device at one moment. Names ending in ``_s`` and ``_bytes`` are counters; None: not told here."""

    at: float
    cores: float = 1.0  # what the device has: its quota, or all cores
    cpu_s: float | None = None
    held_s: float | None = None  # of groups held back by their quota
    waited_s: float | None = None  # of threads runnable and not running
    queued_s: float | None = None  # in which somebody waited for the processor, as the kernel sees it (PSI)
    stalled_s: float | None = None  # in which somebody waited for memory (PSI)
    disk_bytes: float | None = None
    network_bytes: float | None = None
    runnable: float | None = None  # threads, now
    memory: float | None = None  # share in use, now
    gpu: float = 0.0
    gpu_memory: float = 0.0
    celsius: float | None = None


class Watched:
    """A file of the kernel, opened once and read often; empty when it is not there (any more)."""

    def __init__(self, path: str | Path) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def there(self) -> bool:
        return self._fd >= 0

    def text(self) -> str:
        """What it says now."""
        parts, offset = [], 0
        with suppress(OSError):  # it was never there, or the process or group is gone
            while part := os.pread(self._fd, 1 << 16, offset):  # a page at a time, whatever one asks for
                parts.append(part)
                offset += len(part)
        return b"".join(parts).decode()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Machine:
    """The whole of this machine, as Linux tells it."""

    def __init__(self) -> None:
        self._stat, self._memory = Watched("/proc/stat"), Watched("/proc/meminfo")
        self._disks, self._network = Watched("/proc/diskstats"), Watched("/proc/net/dev")
        self._queued, self._stalled = Watched("/proc/pressure/cpu"), Watched("/proc/pressure/memory")
        self._heat = [Watched(path) for path in _thermometers()]
        self.cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

    def read(self, at: float) -> Reading:
        """Everything but the cards."""
        if not self._stat.there:
            return foreign(at, self.cores)
        cpu_s, runnable = processors(self._stat.text())
        free = fields(self._memory.text())
        return Reading(
            at=at,
            cores=self.cores,
            cpu_s=cpu_s,
            queued_s=stall_seconds(self._queued.text()),
            stalled_s=stall_seconds(self._stalled.text()),
            disk_bytes=disk_bytes(self._disks.text()),
            network_bytes=network_bytes(self._network.text()),
            runnable=max(0.0, runnable - 1),  # whoever reads this runs, too
            memory=1.0 - free["MemAvailable"] / free["MemTotal"],
            celsius=self._celsius(),
        )

    def _celsius(self) -> float | None:
        degrees = [int(text) / 1000 for file in self._heat if (text := file.text())]
        return max(degrees, default=None)

    def close(self) -> None:
        for file in (self._stat, self._memory, self._disks, self._network, self._queued, self._stalled, *self._heat):
            file.close()


def processors(stat: str) -> tuple[float, float]:
    """Busy seconds of all cores together, and the threads that can run, from /proc/stat.

    >>> processors("cpu 100 0 50 900 30 0 0 5 0 0\\ncpu0 1 1\\nprocs_running 3\\n")
    (1.5, 3.0)
    """
    lines = stat.splitlines()
    user, nice, system, _, _, *interrupts = map(int, lines[0].split()[1:8])  # without idle, iowait, steal, guests
    running = next(line for line in lines if line.startswith("procs_running"))
    return (user + nice + system + sum(interrupts)) / _TICKS_PER_S, float(running.split()[1])


def fields(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in /proc/meminfo and the stat files of control groups.

    >>> fields("MemTotal:   24 kB\\nnr_throttled 7\\n")
    {'MemTotal': 24, 'nr_throttled': 7}
    """
    words = (line.split() for line in text.splitlines())
    return {name.rstrip(":"): int(value) for name, value, *_ in words}


def stall_seconds(pressure: str) -> float | None:
    """For how long somebody was stalled, from a PSI file.

    >>> stall_seconds("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\\nfull avg10=0.00 total=0\\n")
    2.5
    """
    some, _, _ = pressure.partition("\n")
    return int(some.rpartition("total=")[2]) / 1e6 if some.startswith("some") else None


def disk_bytes(diskstats: str) -> float:
    """Read and written by whole disks: partitions would count twice."""
    rows = [line.split() for line in diskstats.splitlines()]
    names = [row[2] for row in rows]
    whole = (row for row in rows if not row[2].startswith(_NO_DISKS) and not _partition(row[2], names))
    return float(sum(int(row[5]) + int(row[9]) for row in whole) * _SECTOR_BYTES)


def _partition(name: str, names: Iterable[str]) -> bool:
    """sda1 of sda, nvme0n1p1 of nvme0n1."""
    return any(other != name and name.startswith(other) and name[len(other) :].lstrip("p").isdigit() for other in names)


def network_bytes(dev: str) -> float:
    """Received and sent by every interface but the loopback, from a net/dev file."""
    rows = (line.partition(":") for line in dev.splitlines()[2:])
    counts = (values.split() for name, _, values in rows if name.strip() != "lo")
    return float(sum(int(row[0]) + int(row[8]) for row in counts))


def _thermometers() -> list[Path]:
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    return zones or sorted(Path("/sys/class/hwmon").glob("hwmon*/temp*_input"))


def foreign(at: float, cores: float) -> Reading:
    """A machine without /proc, by psutil."""
    psutil = _psutil()
    times, disk, net = psutil.cpu_times(), psutil.disk_io_counters(), psutil.net_io_counters()
    return Reading(
        at=at,
        cores=cores,
        cpu_s=times.user + times.system,
        disk_bytes=float(disk.read_bytes + disk.write_bytes) if disk else None,
        network_bytes=float(net.bytes_recv + net.bytes_sent) if net else None,
        memory=psutil.virtual_memory().percent / 100,
    )


def _psutil() -> Any:
    try:
        import psutil
    except ImportError:
        from littoral.errors import MissingExtra

        raise MissingExtra("psutil", "profile", "probing a machine without /proc") from None
    return psutil
