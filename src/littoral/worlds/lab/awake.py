"""Keeps cores from falling asleep.

A virtual core that has nothing to do is given back to its host, and comes back slower by an amount that changes: on a
shared machine of two, a step on half a core took 35.4 ms of processor time (standard deviation 8 %), and 31.6 ms (5 %)
with loops beside it that give way to everything else (SCHED_IDLE).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from littoral.worlds.lab.ending import end

_SPINNER = Path(__file__).with_name("spinner.py")


@contextmanager
def awake(cores: Iterable[int]) -> Iterator[None]:
    """These cores have something to do as long as the body lasts, or this process."""
    command = [sys.executable, "-I", "-S", str(_SPINNER), *map(str, cores)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as keeper:
        try:
            yield
        finally:
            end(keeper)
