"""The run's clock as a node knows it: its machine's monotonic clock plus an offset, learned from echoes.

Of all echoes the one that was back fastest says most: half its round trip bounds the error.
"""

from __future__ import annotations

import time

DRIFT = 50e-6  # seconds per second by which clocks of two machines may drift apart


class RunClock:
    """Seconds since the run began."""

    def __init__(self, zero: float) -> None:
        self._offset = -zero
        self._error = float("inf")
        self._learned_at = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._offset

    def learn(self, sent: float, now: float) -> None:
        """An echo is back: the run's clock said ``now`` some time after this machine's had said ``sent``."""
        here = time.monotonic()
        error = (here - sent) / 2
        if error <= self._error + DRIFT * (here - self._learned_at):
            self._offset = now - (sent + here) / 2
            self._error, self._learned_at = error, here

    def shift(self, seconds: float) -> None:
        """The run's second 0 is later than was said."""
        self._offset -= seconds
