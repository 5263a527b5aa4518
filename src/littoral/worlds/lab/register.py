"""Which labs there are on this machine, who owns them, and how to remove what is left of one.

Each lab has a record under /run/littoral, written before anything else of it is made; everything else carries the lab's
name. So a lab whose owner was killed is found again, whole.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from littoral.document import suggest
from littoral.errors import InputError
from littoral.worlds.lab import cgroups, spaces
from littoral.worlds.lab.places import Place

FOLDER = Path("/run/littoral")
_NAME = re.compile(r"lit-[0-9a-f]{4}(?![0-9a-f])")


class Process(msgspec.Struct, frozen=True):
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.started


class Record(msgspec.Struct, frozen=True):
    """What is known of a lab."""

    name: str
    subnet: int
    owner: Process
    kept: bool = False
    """Meant to outlive the command that made it."""
    router: Process | None = None
    places: dict[str, Place] = {}


def started(pid: int) -> int:
    """When a process started, in the kernel's ticks; 0 if there is no such process or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def process(pid: int) -> Process:
    """A process as it runs now."""
    return Process(pid, started(pid))


def claim(*, kept: bool) -> Record:
    """A name and a subnet that no other lab has, recorded as this process's."""
    with _locked():
        taken = {record.subnet for record in records()} | _routed()
        subnet = next((n for n in range(1, 255) if n not in taken), None)
        if subnet is None:
            raise OSError("every subnet 10.77.N.0/24 is in use")
        names = set(found())
        name = next(name for name in iter(_fresh_name, "") if name not in names)
        record = Record(name, subnet, process(os.getpid()), kept)
        write(record)
    return record


def write(record: Record) -> None:
    """Keep a record, whole or not at all."""
    draft = FOLDER / f".{record.name}.draft"
    draft.write_bytes(msgspec.json.encode(record))
    draft.replace(FOLDER / f"{record.name}.json")


def records() -> list[Record]:
    """Every lab on record."""
    return [record for path in sorted(FOLDER.glob("lit-*.json")) if (record := _read(path))]


def read(name: str) -> Record | None:
    """The record of one lab."""
    return _read(FOLDER / f"{name}.json")


def found() -> list[str]:
    """Every lab of which anything is there: record, namespaces, control groups, interface or router."""
    places = [
        *(record.name for record in records()),
        *spaces.named("lit-"),
        *(group.name for group in cgroups.named("lit-")),
        *(path.name for path in Path("/sys/class/net").glob("lit-*")),
        *(lab for lab, _ in _routers()),
    ]
    return sorted({match[0] for place in places if (match := _NAME.match(place))})


def abandoned() -> list[str]:
    """Labs whose owner is gone."""
    names = found()  # first: a lab is on record before anything of it can be found
    owned = {record.name for record in records() if record.owner.alive}
    return [name for name in names if name not in owned]


def leftovers() -> list[str]:
    """Labs that no running command needs: abandoned ones, and those made to be kept."""
    kept = [record.name for record in records() if record.kept]
    return sorted({*abandoned(), *kept})


def take_down(name: str | None = None) -> list[str]:
    """Remove one lab, whoever owns it, or all leftovers; what was removed."""
    if name is not None and name not in (there := found()):
        raise InputError(f"there is no lab {name!r}", remedy=suggest(name, there) if there else "none is up")
    removed: list[str] = []
    with _locked():
        for each in leftovers() if name is None else [name]:
            record = read(each)
            if record is not None and record.kept and record.owner.alive:
                _end(record.owner.pid)
            removed += sweep(each)
    return removed


def sweep_abandoned() -> None:
    """Remove what dead owners left, before something new stumbles over it."""
    with _locked():
        for name in abandoned():
            sweep(name)


def sweep(name: str) -> list[str]:
    """Remove all there is of a lab, the processes in it included; what was removed."""
    removed = []
    record = read(name)
    routers = {pid for lab, pid in _routers() if lab == name}
    if record is not None and record.router is not None and record.router.alive:
        routers.add(record.router.pid)
    for pid in routers:
        _end(pid)
        removed.append(f"router {pid}")
    for group in cgroups.named(name):
        cgroups.remove(group)
        removed.append(f"control group {group}")
    for space in spaces.named(f"{name}-"):
        spaces.remove(space)
        removed.append(f"namespace {space}")
    (FOLDER / f"{name}.json").unlink(missing_ok=True)
    return removed


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while started(pid) and time.monotonic() < deadline:
        time.sleep(0.005)


def _routers() -> Iterator[tuple[str, int]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")[:-1]
            if words and _NAME.fullmatch(words[-1]) and any("router" in Path(word).name for word in words[:-1]):
                yield words[-1], int(path.parent.name)


def _routed() -> set[int]:
    """The N of every 10.77.N.0 that this machine already has a way to."""
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    networks = [bytes.fromhex(line.split()[1])[::-1] for line in lines]
    return {network[2] for network in networks if network[:2] == bytes([10, 77])}


def _fresh_name() -> str:
    return f"lit-{secrets.token_hex(2)}"


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None  # gone meanwhile, or of another version: what it names is still found by name


@contextmanager
def _locked() -> Iterator[None]:
    FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
