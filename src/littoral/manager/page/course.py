"""The course of a run, from its feed: accuracy, who was busy, what crossed each link, deadlines missed.

Memory is bounded however long the run: time is kept in bins, and when it goes beyond the last one, two become one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from littoral.manager.feed import FILE, tail

BINS = 160
_FIRST_S = 1 / 64
_MOST_POINTS = 1000
_KEPT = 16  # courses at a time
_TOLD = ("EpochFinished", "NodeLost", "NodeReturned", "FaultInjected", "OutOfMemory", "Resumed",
         "RunFinished")  # fmt: skip


@dataclass
class Bins:
    """Amounts over time, by name."""

    width: float = _FIRST_S
    amounts: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, start: float, stop: float, amount: float) -> None:
        """Spread an amount evenly from ``start`` to ``stop``."""
        while stop >= self.width * BINS:
            self._halve()
        row = self.amounts.setdefault(name, [0.0] * BINS)
        first, last = int(max(0.0, start) / self.width), int(stop / self.width)
        if first == last or stop <= start:
            row[last] += amount
            return
        for index in range(first, last + 1):
            overlap = min(stop, (index + 1) * self.width) - max(start, index * self.width)
            row[index] += amount * overlap / (stop - start)

    def forget_after(self, t: float) -> None:
        """What came later never happened."""
        for row in self.amounts.values():
            first = int(t / self.width) + 1
            row[first:] = [0.0] * len(row[first:])

    def totals(self) -> dict[str, float]:
        """Of each name, the largest first."""
        sums = {name: sum(row) for name, row in self.amounts.items()}
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    def _halve(self) -> None:
        self.width *= 2
        for name, row in self.amounts.items():
            self.amounts[name] = [a + b for a, b in zip(row[::2], row[1::2], strict=True)] + [0.0] * (BINS // 2)


class Course:
    """Follows one feed; whoever looks has it read on."""

    def __init__(self, path: Path) -> None:
        self.accuracy: list[tuple[float, float]] = []
        self.busy, self.sent, self.missed = Bins(), Bins(), Bins()
        self.happened: deque[dict[str, Any]] = deque(maxlen=200)
        self.now = 0.0
        self._path, self._offset, self._lock = path, 0, threading.Lock()

    def catch_up(self) -> None:
        """Read what is new."""
        with self._lock:
            lines = [b""]
            while lines:
                lines, self._offset = tail(self._path, self._offset)
                for line in filter(None, lines):
                    with suppress(msgspec.DecodeError):  # a crash cut it short
                        self._take(msgspec.json.decode(line))

    def _take(self, line: dict[str, Any]) -> None:
        if "progress" in line:
            self._advance(line["progress"])
        elif "event" in line:
            self._happen(line["event"])

    def _advance(self, row: dict[str, Any]) -> None:
        before, self.now = min(self.now, row["t"]), row["t"]
        for node, seconds in row["busy"].items():
            self.busy.add(node, max(0.0, min(before, self.now - seconds)), self.now, seconds)
        for bins, name in ((self.sent, "sent"), (self.missed, "missed")):
            for key, amount in row[name].items():
                bins.add(key, before, self.now, amount)

    def _happen(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "Evaluated":
                self.accuracy.append((event["t"], event["accuracy"]))
                if len(self.accuracy) > _MOST_POINTS:
                    del self.accuracy[1:-1:2]
            case "Resumed" if event["t"] < self.now:
                self._go_back(event["t"])
        if event["event"] in _TOLD:
            self.happened.append(event)

    def _go_back(self, t: float) -> None:
        self.now = t
        self.accuracy = [point for point in self.accuracy if point[0] <= t]
        for bins in (self.busy, self.sent, self.missed):
            bins.forget_after(t)


class Courses:
    """The courses that somebody looks at; others are forgotten, and read again when asked for."""

    def __init__(self, folder: Callable[[int], Path]) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._known: OrderedDict[int, Course] = OrderedDict()

    def of(self, run: int) -> Course:
        """The course of a run, up to now."""
        with self._lock:
            course = self._known.setdefault(run, Course(self._folder(run) / FILE))
            self._known.move_to_end(run)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        course.catch_up()
        return course
