"""What happened in the manager, append-only and numbered, so that a reader can go on where it left off.

An event is written in the transaction of what it tells of. ``kind`` is ``run.finished`` or the like,
``subject`` names the thing (``runs/12``), ``data`` is what there is to say about it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from littoral.manager.database import Database
from littoral.manager.paging import Page, Window, page

MIGRATION = (
    "events",
    """CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL,
       subject TEXT NOT NULL, data TEXT NOT NULL);
       CREATE INDEX events_subject ON events (subject, number)""",
)
KEPT = 100_000  # the newest; older ones are dropped
_SWEEP = 1_000  # numbers between two looks for old ones


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerEvent:
    """Something that happened at ``time``, in seconds since 1970."""

    number: int
    time: float
    kind: str
    subject: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events: of a kind (or all whose kind begins with ``run.``), about a subject."""

    kind: str | None = None
    subject: str | None = None


class Events:
    """The events of one data folder."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database, self._now = database, now

    def append(self, connection: sqlite3.Connection, kind: str, subject: str, data: Mapping[str, Any] = {}) -> int:
        """Tell of something, in the transaction of the thing itself; the event's number."""
        row = (self._now(), kind, subject, json.dumps(dict(data)))
        cursor = connection.execute("INSERT INTO events (time, kind, subject, data) VALUES (?, ?, ?, ?)", row)
        number = int(cursor.lastrowid or 0)
        if number % _SWEEP == 0:
            connection.execute("DELETE FROM events WHERE number <= ?", (number - KEPT,))
        return number

    def listed(self, window: Window, which: Filter = Filter()) -> Page[ManagerEvent]:
        """The events after a number, the oldest first."""
        kind = f"{which.kind}*" if which.kind and which.kind.endswith(".") else which.kind
        with self._database.read() as connection:
            rows = connection.execute(
                """SELECT * FROM events WHERE number > ? AND (? IS NULL OR kind GLOB ?)
                   AND (? IS NULL OR subject = ?) ORDER BY number LIMIT ?""",
                (window.after_number, kind, kind, which.subject, which.subject, window.limit + 1),
            ).fetchall()
        return page(rows, window, lambda row: row["number"], _event)

    def last(self) -> int:
        """The number of the newest event."""
        with self._database.read() as connection:
            row = connection.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()
        return int(row[0])


def _event(row: sqlite3.Row) -> ManagerEvent:
    return ManagerEvent(
        number=row["number"], time=row["time"], kind=row["kind"], subject=row["subject"], data=json.loads(row["data"])
    )
