"""Profiles by name: measurements that solvers believe instead of a description. Kept as the text of their files."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from littoral.errors import InputError, brief
from littoral.manager.database import Database
from littoral.manager.events import Events
from littoral.manager.paging import Page, Window, page
from littoral.manager.refusals import unknown

FILES = ("training.csv", "apps.csv", "choices.json")
MIGRATION = (
    "profiles",
    """CREATE TABLE profiles (name TEXT PRIMARY KEY, summary TEXT NOT NULL, changed REAL NOT NULL, files TEXT NOT NULL)
       WITHOUT ROWID""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """A profile's outline: rows, and the device kinds, tasks and apps they are about."""

    name: str
    changed: float
    training_rows: int
    app_rows: int
    fitted: bool
    kinds: list[str]
    tasks: list[str]
    apps: list[str]


class Profiles:
    """The profiles of one data folder."""

    def __init__(self, database: Database, events: Events, now: Callable[[], float] = time.time) -> None:
        self._database, self._events, self._now = database, events, now

    def put(self, connection: sqlite3.Connection, name: str, files: Mapping[str, str], summary: str) -> ProfileRecord:
        """Keep a profile's files, instead of those of its name."""
        row = (name, summary, self._now(), json.dumps(dict(files)))
        connection.execute("INSERT OR REPLACE INTO profiles VALUES (?, ?, ?, ?)", row)
        self._events.append(connection, "profile.changed", f"profiles/{name}", json.loads(summary))
        return _record(self._row(connection, name))

    def check(self, files: Mapping[str, str], drafts: Path) -> str:
        """What the files are about; to be done before a transaction."""
        from littoral.profiling.profile import load

        for name in files:
            if name not in FILES:
                raise InputError(f"a profile has no file {brief(name)}", remedy=f"give {', '.join(FILES)}", key="files")
        with TemporaryDirectory(dir=drafts) as folder:
            for name, text in files.items():
                (Path(folder) / name).write_bytes(text.encode("utf-8", "replace"))
            profile = load(Path(folder))
        return json.dumps(
            {
                "training_rows": len(profile.training), "app_rows": len(profile.apps), "fitted": bool(profile.choices),
                "kinds": sorted({row.kind for row in profile.training}),
                "tasks": sorted({row.task for row in profile.training}),
                "apps": sorted({row.app for row in profile.apps}),
            }
        )  # fmt: skip

    def delete(self, connection: sqlite3.Connection, name: str) -> None:
        """Forget a profile; jobs that exist have copies."""
        self._row(connection, name)
        connection.execute("DELETE FROM profiles WHERE name = ?", (name,))
        self._events.append(connection, "profile.deleted", f"profiles/{name}")

    def get(self, name: str) -> ProfileRecord:
        """The outline of a profile."""
        with self._database.read() as connection:
            return _record(self._row(connection, name))

    def files(self, name: str) -> dict[str, str]:
        """A profile's files."""
        with self._database.read() as connection:
            found: dict[str, str] = json.loads(self._row(connection, name)["files"])
        return found

    def listed(self, window: Window) -> Page[ProfileRecord]:
        """All of them, by name."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT name, summary, changed FROM profiles WHERE name > ? ORDER BY name LIMIT ?",
                (window.after_name, window.limit + 1),
            ).fetchall()
        return page(rows, window, lambda row: row["name"], _record)

    def _row(self, connection: sqlite3.Connection, name: str) -> sqlite3.Row:
        row: sqlite3.Row | None = connection.execute("SELECT * FROM profiles WHERE name = ?", (name,)).fetchone()
        if row is None:
            known = [row["name"] for row in connection.execute("SELECT name FROM profiles LIMIT 1000")]
            raise unknown("profile", name, known)
        return row


def _record(row: sqlite3.Row) -> ProfileRecord:
    return ProfileRecord(name=row["name"], changed=row["changed"], **json.loads(row["summary"]))
