"""Stressors of our own: a busy loop with a duty, memory that stays resident, and copies in memory with a duty.

python -m littoral.profiling.burners cpu SHARE          of one core
python -m littoral.profiling.burners memory BYTES       says "burning" when it is all there
python -m littoral.profiling.burners bandwidth SHARE    of one core, spent on copies

They end with the process that started them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

_CYCLE_S = 0.004  # several per period of a quota (20 ms), so that a share below the quota is not held back
_HASTE = 1.2  # times its usual turn of work, to catch up
_DEBT_S = 0.005  # more is not made up for later: it would fall into the pauses of whoever is measured
_COPIED_BYTES = 64 << 20  # more than caches hold
_PIECE_BYTES = 1 << 18

Forever = Callable[[], bool]


def burn(share: float, forever: Forever = lambda: True) -> None:
    """Use ``share`` of a core."""
    _take_turns(share, lambda: sum(range(200)), forever)


def copy(share: float, forever: Forever = lambda: True) -> int:
    """Copy memory for ``share`` of a core's time; how many bytes it was, should it end.

    A rate would be steadier for the memory, and less so for whoever shares the core: what a copy takes changes with
    what others do to caches and memory.
    """
    source, target = memoryview(hold(_COPIED_BYTES)), memoryview(hold(_COPIED_BYTES))
    copied = 0

    def piece() -> None:
        nonlocal copied
        at = copied % _COPIED_BYTES
        target[at : at + _PIECE_BYTES] = source[at : at + _PIECE_BYTES]
        copied += _PIECE_BYTES

    _take_turns(share, piece, forever)
    return copied


def _take_turns(share: float, work: Callable[[], object], forever: Forever) -> None:
    """Counted in processor time: neighbours and throttling do not shift the share while it fits.

    There is always a pause after a turn of work, so that asking for more than there is has degrees, as with stress-ng.
    """
    used, begun = time.process_time(), time.monotonic()
    while forever():
        due = share * (time.monotonic() - begun) - (time.process_time() - used)
        if due > _DEBT_S:
            begun += (due - _DEBT_S) / share
        end = time.process_time() + min(due, _HASTE * share * _CYCLE_S)
        while time.process_time() < end:
            work()
        if share < 1:
            time.sleep((1 - share) * _CYCLE_S)


def hold(size_bytes: int) -> bytearray:
    """Memory that is there, not only promised: every page is written."""
    return bytearray(b"\x01") * size_bytes


def main(kind: str, amount: str) -> None:
    """Until ended."""
    if kind == "cpu":
        burn(float(amount))
    elif kind == "memory":
        held = hold(int(amount))
        print("burning", flush=True)
        signal.pause()
        del held
    elif kind == "bandwidth":
        copy(float(amount))
    else:
        raise SystemExit(f"no stressor {kind!r}: cpu, memory or bandwidth")


if __name__ == "__main__":
    main(*sys.argv[1:3])
