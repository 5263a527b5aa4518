"""The pace of a device's cores: told while it runs, the same for a busy device, ended with its owner."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from littoral.profiling.pacer import Pacer, Work


def test_the_pace_is_told_for_a_window_and_the_pacer_ends_with_its_owner() -> None:
    start = time.monotonic()
    with Pacer(None) as pacer:
        while (pace := pacer.pace(start, time.monotonic())) is None:
            assert time.monotonic() < start + 20
            time.sleep(0.05)
        assert pacer.pace(start - 10, start - 5) is None
        pid = pacer._process.pid
    assert 1 < pace < 1e5  # microseconds
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_waiting_for_the_processor_does_not_count() -> None:
    """Ten rivals on this core stretch a turn's time, not its processor time."""
    core = {min(os.sched_getaffinity(0))}
    rival = f"import os\nos.sched_setaffinity(0, {core})\nwhile True: pass"
    before = os.sched_getaffinity(0)
    rivals = [subprocess.Popen([sys.executable, "-c", rival]) for _ in range(10)]
    try:
        os.sched_setaffinity(0, core)
        work = Work()
        time.sleep(0.3)
        start, used = time.monotonic(), sum(work() for _ in range(400))
        took = time.monotonic() - start
    finally:
        os.sched_setaffinity(0, before)
        for process in rivals:
            process.kill()
            process.wait()
    assert took > 4 * used  # of which the turns for the caches are half
