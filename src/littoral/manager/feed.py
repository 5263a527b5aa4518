"""A run's live feed: a file of JSON lines that its process writes and the manager follows.

The journal holds every step, in a buffer of its own; the feed holds what a watcher wants, at once: events that
matter, and a few times per second how far the run is, what each node was busy with and what crossed each link.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from littoral.events import (
    AppChecked,
    Computed,
    DeadlineMissed,
    Evaluated,
    Event,
    Fetched,
    Refused,
    RunFinished,
    RunStarted,
    Sent,
    Used,
)
from littoral.result import Tally

FILE = "live.jsonl"
_EVERY_S = 0.25
_COUNTED = (Computed, Sent, Used, Fetched, DeadlineMissed, AppChecked, Refused, RunStarted)


class FeedWriter:
    """Writes the feed, as a watcher of the run."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now, self._told = path, now, 0.0
        self._busy: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()
        self._file: IO[str] | None = None
        self._introduced = False

    def __enter__(self) -> Self:
        self._file = self._path.open("a", encoding="utf-8")
        self._file.write("\n")  # ends what a crash may have cut short
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __call__(self, event: Event, tally: Tally) -> None:
        """Follow a run."""
        match event:
            case Computed(node=node, t=t, start=start):
                self._busy[node] += t - start  # type: ignore[assignment]
            case Sent(source=source, target=target, size=size):
                self._sent[f"{source}>{target}"] += size
            case DeadlineMissed(app=app):
                self._missed[app] += 1
        if not isinstance(event, _COUNTED):
            self._write({"event": msgspec.to_builtins(event)})
        if self._now() - self._told >= _EVERY_S or isinstance(event, Evaluated | RunStarted | RunFinished):
            self.tell(tally)

    def tell(self, tally: Tally) -> None:
        """One line about how far the run is."""
        self._told, plan = self._now(), tally.plan
        if not self._introduced:
            self._introduced = True
            self._write({"devices": plan.device_of})
        row = {
            "at": self._told, "t": tally.now, "samples": tally.samples, "total": plan.samples * plan.epochs,
            "epoch": plan.samples, "accuracy": tally.accuracy, "predicted_s": plan.predicted.time_s,
            "busy": dict(self._busy), "sent": dict(self._sent), "missed": dict(self._missed),
        }  # fmt: skip
        self._write({"progress": row})
        for counter in (self._busy, self._sent, self._missed):
            counter.clear()

    def _write(self, row: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def tail(path: Path, offset: int, most: int = 1 << 20) -> tuple[list[bytes], int]:
    """Whole lines of a growing file from ``offset`` on, about ``most`` bytes of them, and where to go on."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(most)
            if len(data) == most and not data.endswith(b"\n"):
                data += file.readline()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1], offset + end


def rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of JSON lines; one that a crash has cut short is left out."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row
