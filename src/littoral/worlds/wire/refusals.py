"""What was refused, told sparingly: a flood of bad frames makes one report a second, with a count."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec

REPORT_EVERY_S = 1.0
_MOST_ENTRIES = 256  # strangers choose their addresses: those beyond this many share one entry


class Refused(Exception):
    """A frame that must not take effect; ``reason`` is one of a few fixed words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refusal(msgspec.Struct, frozen=True):
    """``count`` frames or connections of ``peer`` (a name, an address or "?") were dropped for one reason."""

    peer: str
    reason: str
    count: int


class Refusals:
    """Counts refusals per peer and reason; the first is reported at once, later ones at most every second."""

    def __init__(self, report: Callable[[Refusal], None]) -> None:
        self._report = report
        self._pending: Counter[tuple[str, str]] = Counter()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def note(self, peer: str, reason: str) -> None:
        """One more."""
        key = (peer, reason)
        if key not in self._timers and len(self._timers) >= _MOST_ENTRIES:
            key = ("?", reason)
        self._pending[key] += 1
        if key not in self._timers:
            self._tell(key)

    def _tell(self, key: tuple[str, str]) -> None:
        """Report what has gathered, and wait a second before the next report; nothing gathered ends it."""
        self._timers.pop(key, None)
        count = self._pending.pop(key, 0)
        if count:
            self._timers[key] = asyncio.get_running_loop().call_later(REPORT_EVERY_S, self._tell, key)
            self._report(Refusal(*key, count))

    def close(self) -> None:
        """Report the rest and stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for key, count in self._pending.items():
            self._report(Refusal(*key, count))
        self._pending.clear()
