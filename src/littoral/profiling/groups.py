"""A device that is a set of control groups, version 1 or 2: what it may use, what it uses, and how it is held back.

Where no counter of a group tells (version 1 without its cpuacct; waiting for a core; disk bytes without the io
controller), its threads and processes are asked one by one, and summed from the moment each is first seen.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from littoral.profiling.readings import Watched, fields

_UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a huge number


class Groups:
    """The control groups of one device, or of nobody if there are no folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        present = [folder for folder in folders if folder.is_dir()]
        self.cpu = _having(present, "cpu.max", "cpu.cfs_quota_us")
        self.memory = _having(present, "memory.max", "memory.limit_in_bytes")
        usage = _having(present, "cpuacct.usage")
        self._usage = _watch(usage, "cpuacct.usage")
        self._stat = _watch(self.cpu, "cpu.stat")
        self.queued, self.stalled = _watch(self.cpu, "cpu.pressure"), _watch(self.memory, "memory.pressure")
        self._used = _watch(self.memory, "memory.current", "memory.usage_in_bytes")
        self._memory_stat = _watch(self.memory, "memory.stat")
        self._folder = present[0] if present else None
        self._threads, self._files = Members("schedstat", scheduling), Members("io", written)

    def cores(self, most: float) -> float:
        """The quota in cores."""
        return quota(self.cpu, most) if self.cpu else most

    def memory_bytes(self, most: float) -> float:
        """The limit."""
        return memory_limit(self.memory, most) if self.memory else most

    def used_bytes(self) -> float | None:
        """In use, without file pages that could be given back at once."""
        stat = fields(self._memory_stat.text())
        used = self._used.text()
        return max(0.0, int(used) - stat.get("total_inactive_file", stat.get("inactive_file", 0))) if used else None

    def times(self) -> tuple[float | None, float | None, float | None]:
        """Seconds used, held back by the quota, and waited for a core by threads."""
        stat, own = fields(self._stat.text()), self._usage.text()
        summed = self._threads.sums(self._listed("cgroup.threads") or self._listed("tasks"))
        cpu_s = int(own) / 1e9 if own else stat["usage_usec"] / 1e6 if "usage_usec" in stat else summed[0]
        held = stat["throttled_time"] / 1e9 if "throttled_time" in stat else stat.get("throttled_usec", 0) / 1e6
        return cpu_s, held, summed[1]

    def disk_bytes(self) -> float:
        """Read and written by its processes."""
        return self._files.sums(self.processes())[0]

    def processes(self) -> list[int]:
        """Who lives in it, as far as this process can see them."""
        return self._listed("cgroup.procs")

    def _listed(self, name: str) -> list[int]:
        """Opened anew each time: version 1 shows an old list to whoever keeps the file open."""
        words = _words(self._folder / name) if self._folder else []
        return [number for number in map(int, words) if number]

    def close(self) -> None:
        self._threads.close()
        self._files.close()
        for file in (self._usage, self._stat, self.queued, self.stalled, self._used, self._memory_stat):
            file.close()


class Members:
    """Counters of many as one: newcomers count from where they are, what the dead had is kept."""

    def __init__(self, name: str, parse: Callable[[str], tuple[float, float]]) -> None:
        self._name, self._parse = name, parse
        self._seen: dict[int, tuple[Watched, tuple[float, float]]] = {}
        self._total = [0.0, 0.0]

    def sums(self, ids: list[int]) -> tuple[float, float]:
        for gone in self._seen.keys() - set(ids):
            self._seen.pop(gone)[0].close()
        for member in ids:
            file, before = self._seen.get(member) or (Watched(f"/proc/{member}/{self._name}"), None)
            text = file.text()
            if not text:
                file.close()
                self._seen.pop(member, None)
                continue
            now = self._parse(text)
            self._seen[member] = file, now
            for place, (new, old) in enumerate(zip(now, before or now, strict=True)):
                self._total[place] += max(0.0, new - old)
        return self._total[0], self._total[1]

    def close(self) -> None:
        for file, _ in self._seen.values():
            file.close()
        self._seen.clear()


def scheduling(text: str) -> tuple[float, float]:
    """Seconds run and waited, from a thread's schedstat.

    >>> scheduling("2000000000 500000000 17")
    (2.0, 0.5)
    """
    run, waited, _ = map(int, text.split())
    return run / 1e9, waited / 1e9


def written(text: str) -> tuple[float, float]:
    """Bytes to and from disks, from a process's io file; and nothing."""
    counts = fields(text)
    return float(counts["read_bytes"] + counts["write_bytes"]), 0.0


def quota(group: Path, most: float) -> float:
    """Cores that a group and those above it allow, at most ``most``."""
    return min(most, *map(_own_quota, lineage(group)), most)


def memory_limit(group: Path, most: float) -> float:
    """Bytes that a group and those above it allow, at most ``most``."""
    return min(most, *map(_own_memory, lineage(group)), most)


def lineage(group: Path) -> list[Path]:
    """A group and those above it."""
    return [folder for folder in (group, *group.parents) if (folder / "cgroup.procs").exists()]


def _own_quota(group: Path) -> float:
    words = _words(group / "cpu.max") or _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
    limited = len(words) == 2 and words[0] not in ("max", "-1")
    return int(words[0]) / int(words[1]) if limited else math.inf


def _own_memory(group: Path) -> float:
    words = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
    limited = bool(words) and words[0] != "max" and int(words[0]) < _UNLIMITED_BYTES
    return float(words[0]) if limited else math.inf


def own_limits(listing: str = "", root: str = "/sys/fs/cgroup") -> list[Path]:
    """The groups that limit this process, as inside a container; none on a bare machine."""
    found = []
    for line in (listing or _read("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        for group in lineage(_innermost(Path(root) / names, path)):
            if min(_own_quota(group), _own_memory(group)) < math.inf:
                found += [group, Path(root, "cpuacct", *group.relative_to(root).parts[1:])]  # where it is a tree apart
                break
    return found


def _innermost(mount: Path, path: str) -> Path:
    """A container may see its own group as the root of the tree."""
    inner = mount / path.lstrip("/")
    return inner if inner.is_dir() else mount


def _having(folders: list[Path], *names: str) -> Path | None:
    return next((folder for folder in folders for name in names if (folder / name).exists()), None)


def _watch(folder: Path | None, *names: str) -> Watched:
    found = [folder / name for name in names if folder and (folder / name).exists()]
    return Watched(found[0] if found else os.devnull)


def _words(path: Path) -> list[str]:
    return _read(path).split()


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
