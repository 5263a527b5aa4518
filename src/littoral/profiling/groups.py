"""A device that is a set of control groups, version 1 or 2: what it may use, what it uses, and how it is held back.

Where no counter of a group tells (version 1 without its cpuacct; waiting for a core; disk bytes without the io
controller), its threads and processes are asked one by one, and summed from the moment each is first seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from littoral.profiling.limits import CPU, MEMORY, Limit, lineage
from littoral.profiling.readings import Watched, fields


class Groups:
    """The control groups of one device, or of nobody if there are no folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        present = [folder for folder in folders if folder.is_dir()]
        self.cpu = _having(present, "cpu.max", "cpu.cfs_quota_us")
        self.memory = _having(present, "memory.max", "memory.limit_in_bytes")
        self.cores = Limit(lineage(self.cpu) if self.cpu else [], CPU)
        self.memory_bytes = Limit(lineage(self.memory) if self.memory else [], MEMORY)
        self._usage = _watch(_having(present, "cpuacct.usage"), "cpuacct.usage")
        self._stat = _watch(self.cpu, "cpu.stat")
        self.queued, self.stalled = _watch(self.cpu, "cpu.pressure"), _watch(self.memory, "memory.pressure")
        self._used = _watch(self.memory, "memory.current", "memory.usage_in_bytes")
        self._memory_stat = _watch(self.memory, "memory.stat")
        self._folder = str(present[0]) if present else ""
        self._threads, self._files = Members("schedstat", scheduling), Members("io", written)

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
        file = Watched(os.path.join(self._folder, name) if self._folder else os.devnull)
        numbers = [int(word) for word in file.text().split()]
        file.close()
        return [number for number in numbers if number]  # 0: of another process namespace

    def close(self) -> None:
        self._threads.close()
        self._files.close()
        self.cores.close()
        self.memory_bytes.close()
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


def _having(folders: list[Path], *names: str) -> Path | None:
    return next((folder for folder in folders for name in names if (folder / name).exists()), None)


def _watch(folder: Path | None, *names: str) -> Watched:
    found = [folder / name for name in names if folder and (folder / name).exists()]
    return Watched(found[0] if found else os.devnull)
