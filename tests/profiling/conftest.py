"""Stress takes the whole machine's attention: its tests run one at a time, not beside a lab's either."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from littoral.worlds.lab import cgroups
from littoral.worlds.lab.places import Place


@pytest.fixture
def machine() -> Iterator[None]:
    """This machine to itself."""
    with (Path(tempfile.gettempdir()) / "littoral-lab-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes wait here
        yield


@pytest.fixture
def place(machine: None) -> Iterator[Place]:
    """Half a core and 512 MB."""
    controllers = cgroups.find_controllers()
    if os.geteuid() != 0 or controllers.cpu is None or controllers.memory is None:
        pytest.skip("making control groups takes root, and the kernel's cpu and memory controllers")
    groups = cgroups.create(controllers, f"probed-{os.getpid()}", "device")
    try:
        cgroups.limit_cpu(groups, 0.5)
        cgroups.limit_memory(groups, 512 << 20)
        yield Place("127.0.0.1", "", groups)
    finally:
        for group in groups:
            cgroups.remove(Path(group).parent)
