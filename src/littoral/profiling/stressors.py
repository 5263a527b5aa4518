"""How much stress, and the commands that make it on a device of a given size."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import shutil
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

from littoral.errors import InputError
from littoral.profiling import burners
from littoral.profiling.devices import Size

TELLING = ("gpu", "memory")  # stressors that say when they are at work
_MOST = {"cpu": 64.0}  # times what there is; nothing else can be had more than once
_SPARED_BYTES = 64 << 20  # of free memory, for everybody else
_SLICE_MS = 2  # short against a quota's period, or a share within the quota would be held back
_LEAST_CORES = 0.25  # below, such slices are most of what a quota gives at a time, and our own are shorter
_COPY_BYTES = 64 << 20  # more than caches hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """Shares of a device, inside a quota of the quota.

    ``cpu`` above 1 is more than can be had, so that somebody always waits. ``bandwidth`` is of what one core can copy
    in memory; ``disk`` and ``gpu`` are shares of time at full speed.
    """

    cpu: float = 0.0
    memory: float = 0.0
    bandwidth: float = 0.0
    disk: float = 0.0
    gpu: float = 0.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value, most = getattr(self, name), _MOST.get(name, 1.0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise InputError(f"stress: {name} is {value!r}", remedy=f"give a share from 0 to {most:g}")


def has_stress_ng() -> bool:
    return shutil.which("stress-ng") is not None


def commands_for(
    stress: Stress, size: Size, folder: str | None, card: int = 0, *, held: bool = False
) -> dict[str, list[str]]:
    """Command lines by kind of stressor, by stress-ng with its files in ``folder``, or by our own without.

    Our own, too, where a quota has the device ``held`` back: they count processor time, and repeats agree better.
    """
    away = None if held else folder
    commands: dict[str, list[str]] = {}
    if stress.gpu:  # these two first: beside the others it takes long to reach a card or to fill memory
        commands["gpu"] = [sys.executable, "-m", "littoral.profiling.gpu_burner", repr(float(stress.gpu)), str(card)]
    if stress.memory:  # always our own: stress-ng goes over it again and again, and does not say when it is there
        commands["memory"] = _own("memory", _fitting(stress.memory, size))
    if stress.cpu:
        workers, share = spread(stress.cpu, size.cores)
        exact = size.cores >= _LEAST_CORES and whole(share)
        commands |= _ng_cpu(workers, share, away) if away and exact else _own_cpu(workers, share)
    if stress.bandwidth:
        share, rate = stress.bandwidth * min(1.0, size.cores), memory_bytes_per_s(stress, size)
        commands["bandwidth"] = _ng_bandwidth(max(1, round(rate / 1e6)), away) if away else _own("bandwidth", share)
    if stress.disk:
        commands["disk"] = _ng_disk(_needed(folder, "disk"))
    return commands


def spread(share: float, cores: float) -> tuple[int, float]:
    """Workers, and the share of a core for each: one per core, more only to ask for more than there is.

    >>> spread(0.5, 2.0), spread(1.5, 2.0), spread(0.5, 0.4), spread(1.5, 0.5)
    ((2, 0.5), (3, 1.0), (1, 0.2), (1, 0.75))
    """
    workers = max(math.ceil(cores), math.ceil(share * cores))
    return workers, share * cores / workers


def whole(share: float) -> bool:
    """Whether stress-ng, which takes whole per cents of a core, comes near enough; ours takes any share.

    >>> whole(0.5), whole(0.333), whole(0.025)
    (True, True, False)
    """
    return abs(round(100 * share) - 100 * share) <= 2 * share


def memory_bytes_per_s(stress: Stress, size: Size) -> float:
    """What the bandwidth stressor reads and writes, where nobody hinders it."""
    return stress.bandwidth * min(1.0, size.cores) * copy_bytes_per_s() if stress.bandwidth else 0.0


@functools.cache
def copy_bytes_per_s() -> float:
    """What one core of this machine copies in memory: the best of a few times."""
    source, target = (ctypes.create_string_buffer(_COPY_BYTES) for _ in range(2))
    ctypes.memset(source, 1, _COPY_BYTES)  # untouched memory would be one page, seen everywhere

    def once() -> float:
        begin = time.perf_counter()
        ctypes.memmove(target, source, _COPY_BYTES)
        return time.perf_counter() - begin

    return _COPY_BYTES / min(once() for _ in range(20))


def _fitting(share: float, size: Size) -> int:
    held = int(share * size.memory_bytes)
    if held > size.free_bytes - _SPARED_BYTES:
        free = max(0.0, size.free_bytes - _SPARED_BYTES) / size.memory_bytes
        raise InputError(f"stress: memory {share:g} does not fit", remedy=f"free now is a share of {free:.2f}")
    return held


def _needed(folder: str | None, name: str) -> str:
    if folder is None:
        raise InputError(f"stress: {name} needs stress-ng", remedy="install it: apt install stress-ng")
    return folder


def _ng(folder: str, *options: object) -> list[str]:
    return ["stress-ng", "--quiet", "--temp-path", folder, *map(str, options)]


def _ng_cpu(workers: int, share: float, folder: str) -> dict[str, list[str]]:
    load = ("--cpu-load", round(100 * share), "--cpu-load-slice", _SLICE_MS)
    return {"cpu": _ng(folder, "--cpu", workers, *load)}


def _ng_bandwidth(mb_per_s: int, folder: str) -> list[str]:
    rates = ("--memrate-rd-mbs", mb_per_s, "--memrate-wr-mbs", mb_per_s)
    return _ng(folder, "--memrate", 1, "--memrate-bytes", _COPY_BYTES, *rates)


def _ng_disk(folder: str) -> list[str]:
    """One file of 64 MB, written over and over past the page cache where the file system can do that."""
    ways = "direct,wr-seq" if _direct(folder) else "wr-seq,fdatasync"
    return _ng(folder, "--hdd", 1, "--hdd-bytes", "64M", "--hdd-write-size", "1M", "--hdd-opts", ways)


def _direct(folder: str) -> bool:
    path = os.path.join(folder, "direct")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | getattr(os, "O_DIRECT", 0)))
    except OSError:
        return False
    finally:
        Path(path).unlink(missing_ok=True)
    return True


def _own_cpu(workers: int, share: float) -> dict[str, list[str]]:
    return {f"cpu {number}": _own("cpu", share) for number in range(workers)}


def _own(kind: str, amount: float) -> list[str]:
    return [sys.executable, "-I", "-S", str(burners.__file__), kind, repr(amount)]
