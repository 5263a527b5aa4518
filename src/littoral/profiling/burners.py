"""Stressors of our own: a busy loop with a duty, memory that stays resident, and copies at a set rate.

python -m littoral.profiling.burners cpu SHARE          of one core
python -m littoral.profiling.burners memory BYTES       says "burning" when it is all there
python -m littoral.profiling.burners bandwidth RATE     copies so many bytes per second

They end with the process that started them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

_CYCLE_S = 0.004  # several per period of a quota (20 ms), so that a share below the quota is not held back
_HASTE = 1.2  # times its usual turn of work, to catch up
_DEBT_S = 0.02  # what could not be had is not all made up for later
_COPIED_BYTES = 64 << 20  # more than caches hold
_PIECE_BYTES = 1 << 20


def burn(share: float, forever: Callable[[], bool] = lambda: True) -> None:
    """Use ``share`` of a core, counted in processor time: neighbours and throttling do not shift it while it fits.

    It always pauses after a turn of work, so that asking for more than there is has degrees, as with stress-ng.
    """
    used, begun = time.process_time(), time.monotonic()
    while forever():
        due = share * (time.monotonic() - begun) - (time.process_time() - used)
        if due > _DEBT_S:
            begun += (due - _DEBT_S) / share
        _work(min(due, _HASTE * share * _CYCLE_S))
        if share < 1:
            time.sleep((1 - share) * _CYCLE_S)


def _work(cpu_s: float) -> None:
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        sum(range(200))


def hold(size_bytes: int) -> bytearray:
    """Memory that is there, not only promised: every page is written."""
    return bytearray(b"\x01") * size_bytes


def copy(bytes_per_s: float, forever: Callable[[], bool] = lambda: True) -> int:
    """Copy memory at a rate, a little every few milliseconds; how many bytes it was, should it end."""
    source, target = memoryview(hold(_COPIED_BYTES)), memoryview(hold(_COPIED_BYTES))
    copied, begun, at = 0, time.monotonic(), 0
    while forever():
        due = bytes_per_s * (time.monotonic() - begun) - copied
        if due > bytes_per_s * _DEBT_S:
            begun += due / bytes_per_s - _DEBT_S
        end = copied + min(due, _HASTE * bytes_per_s * _CYCLE_S)
        while copied < end:
            piece = slice(at, at + _PIECE_BYTES)
            target[piece] = source[piece]
            copied, at = copied + _PIECE_BYTES, (at + _PIECE_BYTES) % _COPIED_BYTES
        time.sleep(_CYCLE_S / 4)
    return copied


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
