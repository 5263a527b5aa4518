"""What the manager knows of a run at work, from its feed: how far it is, who works, and what to tell of it."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from littoral.manager.feed import FILE, rows, tail
from littoral.manager.runs import Progress
from littoral.manager.thinning import Told

TOLD = {
    "EpochFinished": "epoch",
    "Evaluated": "evaluated",
    "Checkpointed": "checkpointed",
    "NodeLost": "node_lost",
    "NodeReturned": "node_returned",
    "FaultInjected": "fault",
    "OutOfMemory": "out_of_memory",
    "Resumed": "resumed",
}
_STATES = {"NodeStarted": "working", "NodeReturned": "working", "NodeLost": "lost", "NodeFinished": "done"}
_PACE = 40  # rows of the feed over which speed is taken


class Follower:
    """Follows one run's feed from its beginning. ``progress`` and ``rows`` are what it has learned."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.progress = Progress()
        self.devices: dict[str, str] = {}  # of nodes
        self.missed: Counter[str] = Counter()  # deadlines, by app
        self.rows: deque[dict[str, Any]] = deque(maxlen=2000)  # the newest lines about progress
        self._path, self._now, self._offset = folder / FILE, now, 0
        self._pace: deque[tuple[float, int]] = deque(maxlen=_PACE)

    def catch_up(self) -> list[Told]:
        """Read what is new; what of it is worth an event."""
        told: list[Told] = []
        while True:
            lines, self._offset = tail(self._path, self._offset)
            for row in rows(lines):
                told += self._take(row)
            if not lines:
                return told

    def skip_history(self) -> None:
        """Of an earlier process: known, and told."""
        self.catch_up()
        self._pace.clear()

    def _take(self, line: dict[str, Any]) -> list[Told]:
        if "progress" in line:
            self._advance(line["progress"])
            return []
        if "devices" in line:
            self.devices = line["devices"]
            return []
        event = line["event"]
        kind = event.pop("event")
        if kind in _STATES:
            nodes = {**self.progress.nodes, event["node"]: _STATES[kind]}
            self.progress = replace(self.progress, nodes=nodes)
        if kind == "Resumed":
            self._pace.clear()  # samples were set back
        return [(f"run.{TOLD[kind]}", event)] if kind in TOLD else []

    def _advance(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.missed.update(row["missed"])
        self._pace.append((row["at"], row["samples"]))
        speed = self._speed()
        left = row["total"] - row["samples"]
        self.progress = replace(
            self.progress, samples=row["samples"], total_samples=row["total"],
            share=row["samples"] / row["total"], epochs=row["samples"] / row["epoch"],
            accuracy=row["accuracy"], time_s=row["t"], predicted_s=row["predicted_s"], samples_per_s=speed,
            eta_s=left / speed if speed else None, missed=self.missed.total(),
        )  # fmt: skip

    def _speed(self) -> float | None:
        """Samples per second of ours, over the last rows."""
        (first, before), (last, after) = self._pace[0], self._pace[-1]
        return (after - before) / (last - first) if last > first and after > before else None
