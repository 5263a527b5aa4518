"""How fast a device's cores are at the moment: a fixed piece of work, five times a second, timed in processor time.

python -m littoral.profiling.pacer        reads the place in one line on stdin, then tells times until stdin closes

No counter of the kernel's tells this: clocks go down with heat, and a neighbour on the same core, or a guest of the
same host, slows it or the memory without a trace in anybody's use of the processor. Training needs both, and so does
the work: a loop, and a copy in memory that no cache holds. Waiting does not count, so that a busy device and an idle
one have nearly the same pace. It costs two thousandths of a core.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from types import TracebackType

import msgspec

from littoral.profiling import companion
from littoral.profiling.burners import hold
from littoral.worlds.lab import ending
from littoral.worlds.lab.places import Place, enter

_EVERY_S = 0.2
_TURNS = 4000  # of the loop: some 0.1 ms
_RING_BYTES, _PIECE_BYTES = 16 << 20, 1 << 20  # of the copy: some 0.2 ms
_KEPT = 9000  # times: half an hour


class Work:
    """The piece of work."""

    def __init__(self) -> None:
        self._source, self._target = memoryview(hold(_RING_BYTES)), memoryview(hold(_RING_BYTES))
        self._at = 0

    def __call__(self) -> float:
        """Processor seconds of it; the loop once before, for its caches."""
        sum(range(_TURNS))
        piece = slice(self._at, self._at + _PIECE_BYTES)
        self._at = (self._at + _PIECE_BYTES) % _RING_BYTES
        start = time.thread_time()
        sum(range(_TURNS))
        self._target[piece] = self._source[piece]
        return time.thread_time() - start


class Pacer:
    """Runs on a device from entering to leaving the context."""

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._told: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._rest = b""

    def __enter__(self) -> Pacer:
        self._process = companion.start(__name__, self._place)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdout is not None
        ending.end(self._process)
        self._process.stdout.close()

    def pace(self, start: float, end: float) -> float | None:
        """The median microseconds of the work between two moments of the monotonic clock; None if none was told."""
        self._listen()
        inside = sorted(seconds for at, seconds in self._told if start <= at <= end)
        return 1e6 * inside[len(inside) // 2] if inside else None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while part := self._process.stdout.read():
            *lines, self._rest = (self._rest + part).split(b"\n")
            self._told.extend((float(at), float(seconds)) for at, seconds in map(bytes.split, lines))


def main() -> None:
    """Until whoever asked is gone; what nobody reads is not told."""
    place = msgspec.json.decode(sys.stdin.readline(), type=Place | None)
    if place is not None:
        enter(place)
    os.set_blocking(1, False)
    work = Work()
    while not select.select([0], [], [], _EVERY_S)[0]:
        seconds = work()
        try:
            os.write(1, b"%.6f %.9f\n" % (time.monotonic(), seconds))
        except BlockingIOError:
            continue
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
