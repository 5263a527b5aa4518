"""Control groups, version 1 or 2: a share of the processor and of the memory for each device of a lab."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 20_000  # shorter costs processor time per step, longer makes step times jump
LEAST_QUOTA_US = 1_000  # the kernel's own
LONGEST_PERIOD_US = 1_000_000
_LAB_WEIGHT = 10_000  # the most version 2 allows: quotas hold although the machine has other work


@dataclass(frozen=True, slots=True)
class Controllers:
    """Where the kernel lets processor and memory be limited; None where it does not."""

    cpu: Path | None
    memory: Path | None
    unified: Path | None  # the tree of version 2, if the cpu controller is there


def find_controllers(mounts: str = "") -> Controllers:
    """As mounted on this machine, or as ``mounts`` (in the form of /proc/self/mountinfo) says."""
    found: dict[str, Path] = {}
    unified: Path | None = None
    for line in (mounts or Path("/proc/self/mountinfo").read_text()).splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        folder = Path(fields.split()[4])
        if kind == "cgroup":
            found |= {name: folder for name in ("cpu", "memory") if name in options.split(",")}
        elif kind == "cgroup2":
            unified = folder
    offered = (unified / "cgroup.controllers").read_text().split() if unified else []
    if "cpu" in found or "cpu" not in offered:
        return Controllers(found.get("cpu"), found.get("memory"), None)
    return Controllers(unified, unified if "memory" in offered else None, unified)


def create(controllers: Controllers, lab: str, name: str) -> tuple[str, ...]:
    """Control groups for one device, without limits yet."""
    if controllers.unified is not None:
        (controllers.unified / lab).mkdir(exist_ok=True)
        for folder in (controllers.unified, controllers.unified / lab):
            _enable(folder)
    roots = dict.fromkeys(root for root in (controllers.cpu, controllers.memory) if root is not None)
    groups = [root / lab / name for root in roots]
    for group in groups:
        group.mkdir(parents=True)
        _weigh(group.parent, _LAB_WEIGHT)
    return tuple(map(str, groups))


def _weigh(group: Path, weight: float) -> None:
    for name, value in (("cpu.weight", weight), ("cpu.shares", weight * 10.24)):
        if (group / name).exists():
            (group / name).write_text(str(max(2, round(value))))


def _enable(folder: Path) -> None:
    for controller in ("cpu", "memory"):
        with suppress(OSError):  # what is missing then shows when a limit is set
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def limit_cpu(groups: tuple[str, ...], cores: float) -> None:
    """At most this many cores, counted over 20 ms (longer for less than a twentieth of a core), and as much weight."""
    period = min(max(PERIOD_US, round(LEAST_QUOTA_US / max(cores, 1e-6))), LONGEST_PERIOD_US)
    quota = max(LEAST_QUOTA_US, round(cores * period))
    for group in map(Path, groups):
        _weigh(group, 100 * cores)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {period}")
        elif (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("-1")  # a quota must never exceed the parent's while both change
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))


def limit_memory(groups: tuple[str, ...], size_bytes: int) -> None:
    """At most this much memory."""
    for group in map(Path, groups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (group / name).exists():
                (group / name).write_text(str(size_bytes))


def can_limit_cpu(groups: tuple[str, ...]) -> bool:
    """Whether the groups have the cpu controller."""
    names = ("cpu.max", "cpu.cfs_quota_us")
    return any((Path(group) / name).exists() for group in groups for name in names)


def named(prefix: str) -> list[Path]:
    """The labs' groups whose name starts so, in every tree."""
    controllers = find_controllers()
    roots = {root for root in (controllers.cpu, controllers.memory) if root is not None}
    return sorted(path for root in roots for path in root.glob(f"{prefix}*") if path.is_dir())


def remove(group: Path, *, patience_s: float = 5.0) -> None:
    """End every process in a lab's group but the caller, and the group."""
    deadline = time.monotonic() + patience_s
    while True:
        for pid in _members(group):
            if pid == os.getpid():
                (group.parent / "cgroup.procs").write_text(str(pid))
            else:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            return _remove_tree(group)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # the kernel takes a moment to let a killed process go


def _members(group: Path) -> Iterator[int]:
    for path in group.rglob("cgroup.procs"):
        for pid in path.read_text().split():
            if int(pid) > 0:  # 0: of another process namespace, and kill(0) would mean ourselves
                yield int(pid)


def _remove_tree(group: Path) -> None:
    for path in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        path.rmdir()
    if group.exists():
        group.rmdir()
