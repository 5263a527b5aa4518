"""Jobs: what was asked to be trained, kept with all it needs before anything runs."""

from __future__ import annotations

import json
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from littoral.errors import InputError, brief
from littoral.manager.continuums import Continuums
from littoral.manager.database import Database
from littoral.manager.documents import DRAFTS, Given, check_job
from littoral.manager.events import Events
from littoral.manager.paging import Page, Window, page
from littoral.manager.profiles import Profiles
from littoral.manager.refusals import unknown
from littoral.manager.runs import Run, Runs

MIGRATION = (
    "jobs",
    """CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, document TEXT NOT NULL,
       given BLOB NOT NULL, options TEXT NOT NULL, plan TEXT, created REAL NOT NULL)""",
)


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a job. ``lab`` emulates its continuum (processes world, as root); ``seed`` null: the job's own."""

    world: Literal["simulated", "processes", "ray"] = "processes"
    lab: bool = False
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] | None = None
    timing_only: bool = False

    def __post_init__(self) -> None:
        if self.lab and self.world != "processes":
            raise InputError("the lab is for the processes world", remedy="leave out 'lab' or 'world'", key="lab")
        if self.timing_only and self.world != "simulated":
            raise InputError("timing only makes sense in virtual time", remedy="use the simulated world", key="world")

    @property
    def place(self) -> str:
        """The world as journals call it."""
        return f"{self.world}+lab" if self.lab else self.world


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it was asked for."""

    number: int
    name: str
    created: float
    document: dict[str, Any]
    options: dict[str, Any]
    planned: bool  # it came with a plan


class Jobs:
    """The jobs of one data folder."""

    def __init__(
        self, database: Database, events: Events, runs: Runs, continuums: Continuums, profiles: Profiles, *,
        folder: Path, allowed: Collection[str] = (), now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._database, self._events, self._runs, self._now = database, events, runs, now
        self._continuums, self._profiles = continuums, profiles
        self.folder, self.drafts, self._allowed = folder, folder / DRAFTS, allowed

    def check(self, document: Mapping[str, Any]) -> Given:
        """All that a user's job needs, found and checked; to be done before a transaction."""
        document = {"name": "job", **check_job(document, self._allowed)}
        continuum = self._continuums.get(_word(document, "continuum")).document
        profile = self._profiles.files(_word(document, "profile")) if document.get("profile") is not None else {}
        given = Given(job=document, continuum=continuum, profile=profile)
        given.load(self.folder)
        return given

    def submit(
        self, connection: sqlite3.Connection, given: Given, options: RunOptions = RunOptions(), *,
        plan: Mapping[str, Any] | None = None,
    ) -> tuple[JobRecord, Run]:  # fmt: skip
        """Keep a job and queue its run. ``given`` comes from :meth:`check`, or from the manager itself."""
        name = str(given.job.get("name", "job"))
        packed = zlib.compress(msgspec.json.encode(given))
        row = (name, json.dumps(given.job), packed, msgspec.json.encode(options).decode(),
               None if plan is None else json.dumps(plan), self._now())  # fmt: skip
        made = connection.execute(
            "INSERT INTO jobs (name, document, given, options, plan, created) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        number = int(made.lastrowid or 0)
        self._events.append(connection, "job.submitted", f"jobs/{number}", {"name": name, "world": options.place})
        run = self._runs.add(connection, number, name, options.place)
        return _job(connection.execute("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone()), run

    def order(self, number: int) -> tuple[Given, RunOptions, dict[str, Any] | None]:
        """What to do for a job: its files, its options and its plan if it came with one."""
        with self._database.read() as connection:
            row = self._row(connection, number)
        given = msgspec.json.decode(zlib.decompress(row["given"]), type=Given)
        plan = None if row["plan"] is None else json.loads(row["plan"])
        return given, msgspec.json.decode(row["options"], type=RunOptions), plan

    def get(self, number: int) -> JobRecord:
        """A job."""
        with self._database.read() as connection:
            return _job(self._row(connection, number))

    def listed(self, window: Window, name: str | None = None) -> Page[JobRecord]:
        """Jobs, the oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM jobs WHERE number > ? AND (? IS NULL OR name = ?) ORDER BY number LIMIT ?",
                (window.after_number, name, name, window.limit + 1),
            ).fetchall()
        return page(rows, window, lambda row: row["number"], _job)

    def _row(self, connection: sqlite3.Connection, number: int) -> sqlite3.Row:
        row: sqlite3.Row | None = connection.execute("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise unknown("job", number)
        return row


def _word(document: Mapping[str, Any], key: str) -> str:
    name = document.get(key)
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
        found = f"the job's {key} is {brief(name)}" if name is not None else f"key {key!r} is missing"
        raise InputError(found, remedy=f"give the name of a {key} that the manager keeps", key=key)
    return name


def _job(row: sqlite3.Row) -> JobRecord:
    return JobRecord(
        number=row["number"], name=row["name"], created=row["created"], document=json.loads(row["document"]),
        options=json.loads(row["options"]), planned=row["plan"] is not None,
    )  # fmt: skip
