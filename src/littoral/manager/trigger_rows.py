"""Triggers as the database keeps them, with the signal of each: what to plot, and when it fired."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

import msgspec

from littoral.manager.database import Database
from littoral.manager.model_records import find_model
from littoral.manager.refusals import unknown
from littoral.manager.trigger_kinds import check_settings
from littoral.manager.triggers import Decision, Fire

KEPT_SIGNALS = 5_000  # of each trigger, the newest
_SWEEP = 100  # numbers between two looks for old ones


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRow:
    """A trigger as it was made."""

    number: int
    model: str
    kind: str
    settings: dict[str, Any]
    enabled: bool
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A trigger's level when it was asked at ``at``; it fires at 1. ``labelled`` is the store's clock then."""

    number: int
    at: float
    labelled: int
    level: float
    fired: bool
    reason: str


class TriggerRows:
    """All triggers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self, connection: Connection, model: str, kind: str, settings: Mapping[str, Any], now: float
    ) -> TriggerRow:
        """A new trigger of a model."""
        find_model(connection, model)
        checked = msgspec.to_builtins(check_settings(kind, settings))
        made = connection.execute(
            "INSERT INTO triggers (model, kind, settings, enabled, created) VALUES (?, ?, ?, 1, ?)",
            (model, kind, json.dumps(checked), now),
        )
        return find_trigger(connection, made.lastrowid or 0)

    def change(
        self,
        connection: Connection,
        number: int,
        *,
        enabled: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> TriggerRow:
        """Switch it on or off, or give it other settings; with these it begins afresh."""
        row = find_trigger(connection, number)
        checked = row.settings if settings is None else msgspec.to_builtins(check_settings(row.kind, settings))
        values = (row.enabled if enabled is None else enabled, json.dumps(checked), number)
        connection.execute("UPDATE triggers SET enabled = ?, settings = ? WHERE number = ?", values)
        return find_trigger(connection, number)

    def delete(self, connection: Connection, number: int) -> None:
        """With its signal."""
        find_trigger(connection, number)
        connection.execute("DELETE FROM triggers WHERE number = ?", (number,))

    def get(self, number: int) -> TriggerRow:
        """One of them."""
        with self._database.read() as connection:
            return find_trigger(connection, number)

    def all(self, model: str | None = None) -> list[TriggerRow]:
        """Of a model or of all, in the order of their making."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM triggers WHERE ? IS NULL OR model = ? ORDER BY number", (model, model)
            ).fetchall()
        return [_trigger(row) for row in rows]

    # -- signals ------------------------------------------------------------------------------------------------

    def record(self, connection: Connection, trigger: int, decision: Decision, labelled: int, now: float) -> None:
        """Keep what it said."""
        row = (trigger, now, labelled, decision.level, isinstance(decision, Fire), decision.reason)
        number = connection.execute(
            "INSERT INTO signals (trigger, at, labelled, level, fired, reason) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        if (number or 0) % _SWEEP == 0:
            connection.execute(
                "DELETE FROM signals WHERE trigger = ? AND number <= "
                "(SELECT number FROM signals WHERE trigger = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (trigger, trigger, KEPT_SIGNALS),
            )

    def signal(self, number: int, after: int, most: int) -> list[Signal]:
        """After a number, the oldest first."""
        with self._database.read() as connection:
            find_trigger(connection, number)
            rows = connection.execute(
                "SELECT number, at, labelled, level, fired, reason FROM signals WHERE trigger = ? AND number > ? "
                "ORDER BY number LIMIT ?",
                (number, after, most),
            ).fetchall()
        return [Signal(**{**dict(row), "fired": bool(row["fired"])}) for row in rows]


def find_trigger(connection: Connection, number: int) -> TriggerRow:
    """One trigger."""
    row = connection.execute("SELECT * FROM triggers WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise unknown("trigger", number)
    return _trigger(row)


def _trigger(row: Row) -> TriggerRow:
    return TriggerRow(
        number=row["number"], model=row["model"], kind=row["kind"], settings=json.loads(row["settings"]),
        enabled=bool(row["enabled"]), created=row["created"],
    )  # fmt: skip
