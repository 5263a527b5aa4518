"""Keeps cores from falling asleep: python awake.py CORE...   until stdin closes

A virtual core that has nothing to do is given back to its host, and comes back slower by an amount that changes: on a
shared machine of two, a step on half a core took 35.4 ms of processor time (standard deviation 8 %), and 31.6 ms (5 %)
with this beside it. The loops are of the class of work that gives way to everything else at once (SCHED_IDLE).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 5.0


@contextlib.contextmanager
def awake(cores: Iterable[int]) -> Iterator[None]:
    """These cores have something to do as long as the body lasts, or this process."""
    command = [sys.executable, "-I", "-S", __file__, *map(str, cores)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as keeper:
        try:
            yield
        finally:
            assert keeper.stdin is not None
            keeper.stdin.close()
            try:
                keeper.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                keeper.kill()


def _spin(core: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, [core])
    while True:
        pass


def main(cores: list[str]) -> None:
    """A process per core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a user's Ctrl-C is for whoever asked
    children = []
    for core in cores:
        if (child := os.fork()) == 0:
            _spin(int(core))
        children.append(child)
    sys.stdin.buffer.read()
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
