"""Stressors at set shares of what a device has, by stress-ng, and by our own burners where it is missing.

Shares are commanded, not promised: bandwidth and disk cost processor time, too, and neighbours take theirs. What a
device's state then is, the probe tells.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from littoral.errors import RunFailed
from littoral.profiling.devices import size_of
from littoral.profiling.keeper import Order
from littoral.profiling.stressors import TELLING, commands_for, has_stress_ng, memory_bytes_per_s
from littoral.profiling.stressors import Stress as Stress
from littoral.worlds.lab.ending import end
from littoral.worlds.lab.places import Place

_log = logging.getLogger(__name__)


class Running:
    """Stressors at work."""

    def __init__(self, keeper: subprocess.Popen[bytes], names: tuple[str, ...], memory_bytes_per_s: float) -> None:
        self._keeper, self._told = keeper, ""
        self.names = names
        """The kinds that run."""
        self.memory_bytes_per_s = memory_bytes_per_s
        """What the bandwidth stressor was told to read or write: no counter tells a probe."""

    @property
    def pid(self) -> int:
        """Of the process that keeps them."""
        return self._keeper.pid

    def check(self) -> None:
        """Raises RunFailed, naming it, if a stressor has ended."""
        if self._keeper.poll() is not None:
            raise RunFailed(f"a stressor ended too early: {self._said() or 'their keeper was killed'}")

    def wait_ready(self) -> None:
        """Until all of them are started."""
        assert self._keeper.stdout is not None
        self._told = self._keeper.stdout.readline().decode(errors="replace").strip()
        if self._told != "ready":
            raise RunFailed(f"stressors did not start: {self._told or 'their keeper was killed'}")
        self._told = ""

    def _said(self) -> str:
        assert self._keeper.stdout is not None
        self._told += self._keeper.stdout.read().decode(errors="replace").strip()
        return self._told


@functools.cache
def _tell_of_own() -> None:
    """Once."""
    _log.warning("stress-ng is not installed: own stressors for processor and memory")


@contextmanager
def stressed(
    stress: Stress, place: Place | None = None, *, stress_ng: bool | None = None, cores: float | None = None,
    card: int = 0,
) -> Iterator[Running]:  # fmt: skip
    """Stressors run on a device as long as the body does; the processor's may take a second to be at full strength.

    ``stress_ng`` False asks for our own burners, True for stress-ng's; None takes stress-ng's where they suit the
    device, and says so in the log if they are missing.
    ``cores`` are what shares are of, if not what the device has at the moment.
    """
    held = place is not None and stress_ng is None
    if stress_ng is None and not (stress_ng := has_stress_ng()) and not held:
        _tell_of_own()
    size = size_of(place)
    size = size if cores is None else replace(size, cores=cores)
    folder = tempfile.mkdtemp(prefix="littoral-stress-", dir=_disk_folder())
    try:
        commands = commands_for(stress, size, folder if stress_ng else None, card, held=held)
        order = Order(place, folder, commands, {"disk": stress.disk} if stress.disk else {}, telling=TELLING)
        with _kept(order, memory_bytes_per_s(stress, size)) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # the keeper has done so, unless it was killed


@contextmanager
def _kept(order: Order, memory_bytes_per_s: float) -> Iterator[Running]:
    command = [sys.executable, "-m", "littoral.profiling.keeper"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as keeper:
        assert keeper.stdin is not None
        try:
            keeper.stdin.write(msgspec.json.encode(order) + b"\n")
            keeper.stdin.flush()
            running = Running(keeper, tuple(order.commands), memory_bytes_per_s)
            running.wait_ready()
            yield running
        finally:
            end(keeper)
            _end_session(keeper.pid)


def _end_session(leader: int) -> None:
    """What outlived a keeper that was killed: the kernel asks stress-ng's workers to end, and may do so too early."""
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        with suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


def _disk_folder() -> str:
    """/tmp is often memory, /var/tmp a disk."""
    return "/var/tmp" if Path("/var/tmp").is_dir() else tempfile.gettempdir()
