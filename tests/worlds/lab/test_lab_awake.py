"""Loops that keep cores awake: there while they are wanted, behind everybody else, gone with whoever wanted them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from littoral.worlds.lab.awake import awake

OWNER = """
import os, sys
from littoral.worlds.lab.awake import awake
with awake([0]):
    print("there", flush=True)
    sys.stdin.read()
"""


def spinners(parent: psutil.Process) -> list[psutil.Process]:
    """Of a process, once there are some."""
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        if found := [child for keeper in parent.children() for child in keeper.children()]:
            return found
        time.sleep(0.02)
    return []


def test_one_per_core_that_gives_way_to_everybody() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    with awake(cores):
        found = spinners(psutil.Process())
        until = time.monotonic() + 10.0
        while len(found) < len(cores) or any(os.sched_getscheduler(each.pid) != os.SCHED_IDLE for each in found):
            assert time.monotonic() < until
            time.sleep(0.02)
            found = spinners(psutil.Process())
        time.sleep(0.05)
        assert sorted(core for each in found for core in os.sched_getaffinity(each.pid)) == cores
    gone, alive = psutil.wait_procs(found, timeout=10.0)
    assert len(gone) == len(cores) and not alive


def test_they_end_with_an_owner_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"there\n"
        found = spinners(psutil.Process(owner.pid))
        assert found
        owner.kill()
        gone, alive = psutil.wait_procs(found, timeout=10.0)
    assert gone and not alive
