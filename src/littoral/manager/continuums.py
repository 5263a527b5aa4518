"""Continuums by name: what there is to train on. A job takes a copy, so that a change touches no job that exists."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.continuum.write import continuum_document
from littoral.manager.database import Database
from littoral.manager.documents import continuum_of, text_of
from littoral.manager.events import Events
from littoral.manager.paging import Page, Window, page
from littoral.manager.refusals import unknown

MIGRATION = (
    "continuums",
    """CREATE TABLE continuums (name TEXT PRIMARY KEY, document TEXT NOT NULL, changed REAL NOT NULL) WITHOUT ROWID""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuumRecord:
    """A continuum as it is kept: every default written out, units in strings."""

    name: str
    changed: float
    sites: int
    devices: int
    document: dict[str, Any]


class Continuums:
    """The continuums of one data folder."""

    def __init__(
        self, database: Database, events: Events, allowed: Collection[str] = (), now: Callable[[], float] = time.time
    ) -> None:
        self._database, self._events, self._allowed, self._now = database, events, allowed, now
        self._parsed: dict[str, tuple[str, Continuum]] = {}  # by name, with the text it was read from

    def put(self, connection: sqlite3.Connection, name: str, continuum: Continuum) -> ContinuumRecord:
        """Keep a continuum, instead of the one that had its name."""
        text = text_of(continuum_document(continuum))
        connection.execute("INSERT OR REPLACE INTO continuums VALUES (?, ?, ?)", (name, text, self._now()))
        self._events.append(connection, "continuum.changed", f"continuums/{name}", {"devices": len(continuum.devices)})
        return self._find(connection, name)

    def check(self, name: str, document: Mapping[str, Any]) -> Continuum:
        """What a document describes; to be done before a transaction."""
        return continuum_of(document, name, self._allowed)

    def delete(self, connection: sqlite3.Connection, name: str) -> None:
        """Forget a continuum."""
        self._find(connection, name)
        connection.execute("DELETE FROM continuums WHERE name = ?", (name,))
        self._events.append(connection, "continuum.deleted", f"continuums/{name}")

    def get(self, name: str) -> ContinuumRecord:
        """The continuum of that name."""
        with self._database.read() as connection:
            return self._find(connection, name)

    def listed(self, window: Window) -> Page[ContinuumRecord]:
        """All of them, by name."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM continuums WHERE name > ? ORDER BY name LIMIT ?", (window.after_name, window.limit + 1)
            ).fetchall()
        return page(rows, window, lambda row: row["name"], _record)

    def all(self) -> list[Continuum]:
        """Every continuum, to look at its devices."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT name, document FROM continuums ORDER BY name").fetchall()
        self._parsed = {row["name"]: (row["document"], self._read(row["name"], row["document"])) for row in rows}
        return [continuum for _, continuum in self._parsed.values()]

    def _read(self, name: str, text: str) -> Continuum:
        known = self._parsed.get(name)
        return known[1] if known is not None and known[0] == text else parse_continuum(text)

    def _find(self, connection: sqlite3.Connection, name: str) -> ContinuumRecord:
        row = connection.execute("SELECT * FROM continuums WHERE name = ?", (name,)).fetchone()
        if row is None:
            known = [row["name"] for row in connection.execute("SELECT name FROM continuums LIMIT 1000")]
            raise unknown("continuum", name, known)
        return _record(row)


def _record(row: sqlite3.Row) -> ContinuumRecord:
    document = json.loads(row["document"])
    return ContinuumRecord(
        name=row["name"], changed=row["changed"], sites=len(document["sites"]), devices=len(document["devices"]),
        document=document,
    )  # fmt: skip
