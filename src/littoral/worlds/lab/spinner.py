"""Loops on some cores that give way to everything else at once: python spinner.py CORE...   until stdin closes"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


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
