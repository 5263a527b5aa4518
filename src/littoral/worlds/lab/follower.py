"""Lets what varies with time follow the wall clock: calls back whenever a signal takes a new value."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from littoral.continuum.signal import Signal


class Follower:
    """A thread that tells every change of a signal to its listener, with the seconds since the start."""

    def __init__(self, signals: Sequence[tuple[Signal, Callable[[float], None]]]) -> None:
        self._signals = signals
        self._ended = threading.Event()
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._follow, name="lab-follower", daemon=True)
        self._thread.start()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def stop(self) -> None:
        """No more changes after this."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        told = 0.0
        while True:
            due = [(signal.next_change(told), listener) for signal, listener in self._signals]
            change = min((at for at, _ in due), default=math.inf)
            if self._ended.wait(None if math.isinf(change) else max(0.0, change - self.now)):
                return
            told = max(change, self.now)  # what was missed meanwhile is not made up for
            for at, listener in due:
                if at <= told:
                    listener(told)
