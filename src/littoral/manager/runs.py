"""Runs and their states, in the database. What moves a run from one state to the next is here, and nothing else.

    queued -> running -> finished | failed | stopped          stopped, failed -> queued by an operator's resume
                 ^---- queued (the manager ended, or the run's process died: it goes on from its checkpoint)

``attempts`` counts processes started for the run, ``deaths`` those that were killed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from littoral.manager.database import Database
from littoral.manager.events import Events
from littoral.manager.paging import LAST, Page, Window, page
from littoral.manager.refusals import Conflict, unknown

MIGRATION = (
    "runs",
    """CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, name TEXT NOT NULL,
       world TEXT NOT NULL, state TEXT NOT NULL, stop_asked INTEGER NOT NULL DEFAULT 0,
       attempts INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL,
       ended REAL, reason TEXT NOT NULL DEFAULT '', progress TEXT, result TEXT);
       CREATE INDEX runs_state ON runs (state, number)""",
)


class RunState(StrEnum):
    """Where a run is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is. ``time_s`` is its world's clock; ``eta_s`` are seconds of ours until all epochs are done."""

    samples: int = 0
    total_samples: int = 0
    share: float = 0.0  # of all epochs
    epochs: float = 0.0
    accuracy: float | None = None
    time_s: float = 0.0
    samples_per_s: float | None = None  # of ours
    eta_s: float | None = None
    predicted_s: float | None = None  # the plan's, of the world's clock
    missed: int = 0  # deadlines of apps
    nodes: dict[str, str] = field(default_factory=dict)  # working, lost or done


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job. Times are seconds since 1970."""

    number: int
    job: int
    name: str
    world: str
    state: RunState
    stop_asked: bool
    attempts: int
    deaths: int
    created: float
    started: float | None
    ended: float | None
    reason: str
    progress: Progress | None


class Runs:
    """The runs of one data folder."""

    def __init__(self, database: Database, events: Events, now: Callable[[], float] = time.time) -> None:
        self._database, self._events, self._now = database, events, now

    # -- changes, in the transaction given --------------------------------------------------------------------------

    def add(self, connection: sqlite3.Connection, job: int, name: str, world: str) -> Run:
        """A run that waits for its turn."""
        row = (job, name, world, RunState.QUEUED, self._now())
        made = connection.execute("INSERT INTO runs (job, name, world, state, created) VALUES (?, ?, ?, ?, ?)", row)
        number = int(made.lastrowid or 0)
        self._tell(connection, number, "queued", {"job": job})
        return self.find(connection, number)

    def begin(self, connection: sqlite3.Connection) -> Run | None:
        """The run whose turn it is, now running; None if nobody waits."""
        row = connection.execute(
            "SELECT number FROM runs WHERE state = ? ORDER BY number LIMIT 1", (RunState.QUEUED,)
        ).fetchone()
        if row is None:
            return None
        connection.execute(
            "UPDATE runs SET state = ?, attempts = attempts + 1, started = coalesce(started, ?) WHERE number = ?",
            (RunState.RUNNING, self._now(), row["number"]),
        )
        run = self.find(connection, row["number"])
        self._tell(connection, run.number, "started", {"attempt": run.attempts})
        return run

    def end(
        self, connection: sqlite3.Connection, number: int, state: RunState, reason: str,
        result: Mapping[str, Any] | None = None,
    ) -> Run:  # fmt: skip
        """The run is over."""
        text = None if result is None else json.dumps(result)
        connection.execute(
            "UPDATE runs SET state = ?, reason = ?, result = ?, ended = ?, stop_asked = 0 WHERE number = ?",
            (state, reason, text, self._now(), number),
        )
        self._tell(connection, number, state, {"reason": reason})
        return self.find(connection, number)

    def requeue(self, connection: sqlite3.Connection, number: int, why: str, died: bool = False) -> None:
        """The run goes on from its checkpoint when its turn comes."""
        connection.execute(
            "UPDATE runs SET state = ?, deaths = deaths + ?, ended = NULL, reason = '' WHERE number = ?",
            (RunState.QUEUED, int(died), number),
        )
        self._tell(connection, number, "queued", {"why": why})

    def ask_stop(self, connection: sqlite3.Connection, number: int) -> Run:
        """A waiting run is stopped at once, a running one as soon as it has written a checkpoint."""
        run = self.find(connection, number)
        if run.state in ENDED:
            raise Conflict(f"run {number} is {run.state}", remedy="only queued and running ones can be stopped")
        if run.state == RunState.QUEUED:
            return self.end(connection, number, RunState.STOPPED, "stopped before it began")
        connection.execute("UPDATE runs SET stop_asked = 1 WHERE number = ?", (number,))
        return self.find(connection, number)

    def resume(self, connection: sqlite3.Connection, number: int) -> Run:
        """A stopped or failed run waits for its turn again."""
        run = self.find(connection, number)
        if run.state not in (RunState.STOPPED, RunState.FAILED):
            raise Conflict(f"run {number} is {run.state}", remedy="only stopped and failed ones can be resumed")
        connection.execute("UPDATE runs SET deaths = 0 WHERE number = ?", (number,))
        self.requeue(connection, number, "resumed")
        return self.find(connection, number)

    def delete(self, connection: sqlite3.Connection, number: int) -> None:
        """Forget a run that has ended."""
        run = self.find(connection, number)
        if run.state not in ENDED:
            raise Conflict(f"run {number} is {run.state}", remedy="stop it first")
        connection.execute("DELETE FROM runs WHERE number = ?", (number,))
        self._tell(connection, number, "deleted", {})

    def note(self, connection: sqlite3.Connection, number: int, progress: Progress) -> None:
        """Keep how far a run is."""
        text = json.dumps(msgspec.to_builtins(progress))
        connection.execute("UPDATE runs SET progress = ? WHERE number = ?", (text, number))

    # -- questions --------------------------------------------------------------------------------------------------

    def find(self, connection: sqlite3.Connection, number: int) -> Run:
        """A run, as the transaction sees it."""
        row = connection.execute("SELECT * FROM runs WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise unknown("run", number)
        return _run(row)

    def get(self, number: int) -> Run:
        """A run."""
        with self._database.read() as connection:
            return self.find(connection, number)

    def result(self, number: int) -> dict[str, Any]:
        """What came out of a run."""
        with self._database.read() as connection:
            run = self.find(connection, number)
            text = connection.execute("SELECT result FROM runs WHERE number = ?", (number,)).fetchone()["result"]
        if text is None:
            raise Conflict(f"run {number} has no result: it is {run.state}", remedy="wait until it is finished")
        found: dict[str, Any] = json.loads(text)
        return found

    def listed(
        self, window: Window, state: RunState | None = None, job: int | None = None, *, newest: bool = False
    ) -> Page[Run]:
        """Runs, the oldest or the newest first."""
        after, way, order = window.after_number, ">", "ASC"
        if newest:
            after, way, order = after or LAST, "<", "DESC"
        with self._database.read() as connection:
            rows = connection.execute(
                f"""SELECT * FROM runs WHERE number {way} ? AND (? IS NULL OR state = ?) AND (? IS NULL OR job = ?)
                    ORDER BY number {order} LIMIT ?""",
                (after, state, state, job, job, window.limit + 1),
            ).fetchall()
        return page(rows, window, lambda row: row["number"], _run)

    def _tell(self, connection: sqlite3.Connection, number: int, what: str, data: Mapping[str, Any]) -> None:
        self._events.append(connection, f"run.{what}", f"runs/{number}", data)


def _run(row: sqlite3.Row) -> Run:
    progress = None if row["progress"] is None else msgspec.json.decode(row["progress"], type=Progress)
    return Run(
        number=row["number"], job=row["job"], name=row["name"], world=row["world"], state=RunState(row["state"]),
        stop_asked=bool(row["stop_asked"]), attempts=row["attempts"], deaths=row["deaths"],
        created=row["created"], started=row["started"], ended=row["ended"], reason=row["reason"], progress=progress,
    )  # fmt: skip
