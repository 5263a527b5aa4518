"""Stressors of our own: memory that stays resident, and for devices without stress-ng a busy loop with a duty.

python -m littoral.profiling.burners cpu SHARE          of one core
python -m littoral.profiling.burners memory BYTES       says "burning" when it is all there

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


def main(kind: str, amount: str) -> None:
    """Until ended."""
    if kind == "cpu":
        burn(float(amount))
    elif kind == "memory":
        held = hold(int(amount))
        print("burning", flush=True)
        signal.pause()
        del held
    else:
        raise SystemExit(f"no stressor {kind!r}: cpu or memory")


if __name__ == "__main__":
    main(*sys.argv[1:3])
