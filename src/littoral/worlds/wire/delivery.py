"""The rate at which a path delivers, from acknowledgements alone, one at a time."""

from __future__ import annotations

from collections import deque

_LEAST_SPAN_S = 0.1
_HOLD_S = 1.0  # a rate counts for one to two times as long as this


class Delivery:
    """The best rate of the last one to two seconds in which we always had more to send than the path would take.

    After a loss a whole window can arrive at once. Measured over four windows, that makes the rate look a third
    better at most, and a window that is a third too large does not make the next mistake larger.
    """

    def __init__(self) -> None:
        self.rate: float | None = None  # bytes per second
        self.steady = False  # whether it was measured while there was always more to send
        self.total = 0  # bytes
        self._marks: deque[tuple[float, int]] = deque()  # time and total, at each acknowledgement since the last pause
        self._best, self._best_before, self._since = 0.0, 0.0, 0.0

    def pause(self) -> None:
        """The path has less than it could take: what arrives until there is more says nothing about it."""
        self._marks.clear()

    def update(self, size: int, now: float, window: int, window_s: float) -> None:
        """``size`` more bytes arrived; a ``window`` of them takes about ``window_s``."""
        self.total += size
        self._marks.append((now, self.total))
        while len(self._marks) > 1:
            began, before = self._marks[0]
            if self.total - before < 4 * window and now - began < max(_LEAST_SPAN_S, 4 * window_s):
                return
            self._marks.popleft()
            if now > began:
                self.learn((self.total - before) / (now - began), now)
                self.steady = True

    def learn(self, rate: float, now: float) -> None:
        """A rate was measured."""
        if now - self._since > _HOLD_S:
            self._best, self._best_before, self._since = 0.0, self._best, now
        self._best = max(self._best, rate)
        self.rate = max(self._best, self._best_before)
