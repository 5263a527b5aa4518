"""Is a node still there? It says so five times a second; how long a silence means that it is gone, its own past tells.

A node on a busy device beats unevenly, so its limit grows with the gaps it has shown; nobody has to guess a timeout.
Never below ``FLOOR_S``: short freezes of a whole machine are common, and a needless regrouping costs more.
"""

from __future__ import annotations

FLOOR_S = 1.0
CAUTION = 3.0  # times the longest gap of late
FADING = 0.98  # a long gap is forgotten over some fifty beats


class Detector:
    """Judges one node by the times at which it was heard."""

    def __init__(self, now: float) -> None:
        self._heard = now
        self._longest = 0.0

    def heard(self, now: float) -> None:
        """It said something."""
        self._longest = max(self._longest * FADING, now - self._heard)
        self._heard = now

    def excuse(self, now: float) -> None:
        """The listener itself was away: silence until now proves nothing."""
        self._heard = now

    @property
    def limit_s(self) -> float:
        """The silence that means it is gone."""
        return max(FLOOR_S, CAUTION * self._longest)

    def silent(self, now: float) -> bool:
        """Whether it has been silent for too long."""
        return now - self._heard > self.limit_s
