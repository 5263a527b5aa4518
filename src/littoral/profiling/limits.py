"""What control groups allow, version 1 or 2. A group's limit is the tightest of its own and those above it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from littoral.profiling.readings import Watched

_UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a huge number


def cores(words: list[str]) -> float:
    """Of cpu.max, or of version 1's quota and period.

    >>> cores(["50000", "100000"]), cores(["max", "100000"]), cores(["-1", "100000"])
    (0.5, inf, inf)
    """
    return math.inf if len(words) < 2 or words[0] in ("max", "-1") else int(words[0]) / int(words[1])


def size(words: list[str]) -> float:
    """Of memory.max, or of version 1's limit.

    >>> size(["1048576"]), size(["max"]), size(["9223372036854771712"])
    (1048576.0, inf, inf)
    """
    return math.inf if not words or words[0] == "max" or int(words[0]) > _UNLIMITED_BYTES else float(words[0])


CPU = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")), cores
MEMORY = (("memory.max",), ("memory.limit_in_bytes",)), size
Kind = tuple[tuple[tuple[str, ...], ...], Callable[[list[str]], float]]


class Limit:
    """A limit of some groups, which may change while it is watched."""

    def __init__(self, groups: list[Path], kind: Kind) -> None:
        names, self._parse = kind
        there = [[group / name for name in pair] for group in groups for pair in names if (group / pair[0]).exists()]
        self._files = [[Watched(path) for path in paths] for paths in there]

    def now(self, most: float = math.inf) -> float:
        """The tightest, at most ``most``."""
        found = (self._parse([word for file in files for word in file.text().split()]) for files in self._files)
        return min([most, *found])

    def close(self) -> None:
        for files in self._files:
            for file in files:
                file.close()


def lineage(group: Path) -> list[Path]:
    """A group and those above it."""
    return [folder for folder in (group, *group.parents) if (folder / "cgroup.procs").exists()]


def own_limits(listing: str = "", root: str = "/sys/fs/cgroup") -> list[Path]:
    """The groups that limit this process, as inside a container; none on a bare machine.

    ``listing`` has the form of /proc/self/cgroup, which is read if it is empty.
    """
    if not listing and not Path("/proc/self/cgroup").exists():
        return []
    found = []
    for line in (listing or Path("/proc/self/cgroup").read_text()).splitlines():
        _, names, path = line.split(":", 2)
        group = next(filter(_limits, lineage(_innermost(Path(root, names), path))), None)
        if group is not None:
            found += [group, Path(root, "cpuacct", *group.relative_to(root).parts[1:])]  # where it is a tree apart
    return found


def _limits(group: Path) -> bool:
    limits = [Limit([group], kind) for kind in (CPU, MEMORY)]
    try:
        return any(limit.now() < math.inf for limit in limits)
    finally:
        for limit in limits:
            limit.close()


def _innermost(mount: Path, path: str) -> Path:
    """A container may see its own group as the root of the tree."""
    inner = mount / path.lstrip("/")
    return inner if inner.is_dir() else mount
