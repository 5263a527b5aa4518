"""Owns a lab that was left: a process in the background that follows the traces until it is ended.

python -m littoral.worlds.lab.keeper        reads a continuum's document on stdin, prints the lab's name
"""

from __future__ import annotations

import os
import signal
import sys

from littoral.continuum.load import parse_continuum
from littoral.errors import LittoralError
from littoral.worlds.lab.lab import Lab

ENDING = {signal.SIGTERM, signal.SIGINT}


def keep() -> None:
    """What the keeper does until it is ended."""
    try:
        lab = Lab.up(parse_continuum(sys.stdin.read()), kept=True)
    except LittoralError as error:
        print(error, flush=True)
        return
    with lab:
        lab.start_clock()
        print(lab.name, flush=True)
        _close_streams()
        signal.sigwait(ENDING)


def _close_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # before any thread starts, or one of them would take the signal
    if os.fork() == 0:  # the starter ends at once, and the keeper is nobody's child
        os.setsid()
        keep()
