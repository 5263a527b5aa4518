"""Models and their versions: which one is served, which came before, and why another was not promoted.

Everything that changes what is served is one transaction. Methods with a ``connection`` are part of the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import msgspec

from littoral.errors import InputError
from littoral.learning.task import Task, load_task
from littoral.manager.database import Database
from littoral.manager.gate import Gate, Score
from littoral.manager.inputs import Kind
from littoral.manager.model_records import (
    MODELS,
    Model,
    State,
    Training,
    Version,
    find_model,
    find_version,
    model_of,
    version_of,
)
from littoral.manager.refusals import Conflict
from littoral.manager.stores import find_store
from littoral.manager.weights import Weights


class Registry:
    """Models and versions in the database, weights in files."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database, self.weights = database, Weights(folder)

    def sweep(self) -> None:
        """Remove weights that no version has; before anything else is done."""
        with self._database.read() as connection:
            known = {(row["model"], row["file"]) for row in connection.execute("SELECT model, file FROM versions")}
        self.weights.sweep(known)

    # -- models -------------------------------------------------------------------------------------------------

    def create(
        self, connection: Connection, name: str, task: str, options: Mapping[str, Any], *, store: str,
        gate: Gate, training: Training, now: float,
    ) -> Model:  # fmt: skip
        """A model without a version, fed by a store that feeds no other."""
        if connection.execute("SELECT 1 FROM models WHERE name = ?", (name,)).fetchone():
            raise Conflict(f"there is a model {name!r} already", remedy="choose another name")
        user = connection.execute("SELECT name FROM models WHERE store = ?", (store,)).fetchone()
        if user is not None:
            raise Conflict(f"store {store!r} feeds model {user['name']!r}", remedy="give each model a store of its own")
        _check_kind(load_task(task, options), find_store(connection, store).kind)
        row = (name, task, json.dumps(dict(options)), store, _text(gate), _text(training), now)
        connection.execute("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return find_model(connection, name)

    def get(self, name: str) -> Model:
        """The model of that name."""
        with self._database.read() as connection:
            return find_model(connection, name)

    def all(self) -> list[Model]:
        """By name."""
        with self._database.read() as connection:
            return [model_of(row) for row in connection.execute(f"{MODELS} ORDER BY name")]

    def change(self, connection: Connection, name: str, gate: Gate, training: Training) -> Model:
        """Other rules from now on."""
        find_model(connection, name)
        row = (_text(gate), _text(training), name)
        connection.execute("UPDATE models SET gate = ?, training = ? WHERE name = ?", row)
        return find_model(connection, name)

    def delete(self, connection: Connection, name: str) -> None:
        """With its versions, triggers and updates; refused while an update runs. Its store stays."""
        find_model(connection, name)
        if connection.execute("SELECT 1 FROM updates WHERE model = ? AND ended IS NULL", (name,)).fetchone():
            raise Conflict(f"model {name!r} is being updated", remedy="give the update up first")
        connection.execute("DELETE FROM models WHERE name = ?", (name,))

    # -- versions -----------------------------------------------------------------------------------------------

    def versions(self, name: str) -> list[Version]:
        """The oldest first."""
        with self._database.read() as connection:
            find_model(connection, name)
            rows = connection.execute("SELECT * FROM versions WHERE model = ? ORDER BY number", (name,)).fetchall()
        return [version_of(row) for row in rows]

    def version(self, name: str, number: int) -> Version:
        """One of them."""
        with self._database.read() as connection:
            return find_version(connection, name, number)

    def add(
        self, connection: Connection, name: str, file: str, *, reason: str, now: float, parent: int | None = None,
        run: str | None = None, score: Score | None = None, state: State = "candidate",
    ) -> Version:  # fmt: skip
        """A version whose weights are on the disk already."""
        last = connection.execute("SELECT max(number) AS last FROM versions WHERE model = ?", (name,)).fetchone()[
            "last"
        ]
        number = (last or 0) + 1
        figures = (score.accuracy, score.samples) if score else (None, None)
        row = (name, number, file, parent, run, state, reason, *figures, now)
        connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return find_version(connection, name, number)

    def promote(
        self, connection: Connection, name: str, number: int, *, reason: str, now: float, score: Score | None = None
    ) -> Version:
        """Serve this version from now on; the one before is retired, and one call away."""
        version = find_version(connection, name, number)
        if version.state == "current":
            return version
        _serve(connection, name, number, reason)
        if score is not None:
            connection.execute(
                "UPDATE versions SET accuracy = ?, judged_on = ? WHERE model = ? AND number = ?",
                (score.accuracy, score.samples, name, number),
            )
        labelled = find_store(connection, find_model(connection, name).store).labelled
        row = (name, number, now, labelled)
        connection.execute("INSERT INTO promotions (model, version, at, labelled) VALUES (?, ?, ?, ?)", row)
        return find_version(connection, name, number)

    def refuse(self, connection: Connection, name: str, number: int, reason: str, score: Score) -> Version:
        """Keep it, and say why it is not served."""
        connection.execute(
            "UPDATE versions SET state = 'refused', reason = ?, accuracy = ?, judged_on = ? "
            "WHERE model = ? AND number = ? AND state <> 'current'",
            (reason, score.accuracy, score.samples, name, number),
        )
        return find_version(connection, name, number)

    def rollback(self, connection: Connection, name: str, *, now: float, reason: str = "rolled back") -> Version:
        """Serve what was served before; once more, and it is the one before that."""
        find_model(connection, name)
        stack = connection.execute(
            "SELECT number, version FROM promotions WHERE model = ? AND NOT undone ORDER BY number DESC LIMIT 2",
            (name,),
        ).fetchall()
        if len(stack) < 2:
            raise Conflict(f"model {name!r} has no version before this one", remedy="promote another one by its number")
        top, before = stack
        connection.execute("UPDATE promotions SET undone = 1 WHERE number = ?", (top["number"],))
        _serve(connection, name, before["version"], f"{reason} from version {top['version']}")
        labelled = find_store(connection, find_model(connection, name).store).labelled
        connection.execute(
            "UPDATE promotions SET at = ?, labelled = ? WHERE number = ?", (now, labelled, before["number"])
        )
        return find_version(connection, name, before["version"])


def _serve(connection: Connection, name: str, number: int, reason: str) -> None:
    connection.execute(
        "UPDATE versions SET state = 'retired', reason = ? WHERE model = ? AND state = 'current'",
        (f"replaced by version {number}", name),
    )
    connection.execute(
        "UPDATE versions SET state = 'current', reason = ? WHERE model = ? AND number = ?", (reason, name, number)
    )


def _check_kind(task: Task, kind: Kind) -> None:
    samples = getattr(task, "samples", None)
    if samples is not None and (kind.shape, kind.classes) != (samples.shape, samples.classes):
        raise InputError(
            f"the store keeps samples of shape {kind.shape} in {kind.classes} classes, task {task.name} takes "
            f"{samples.shape} in {samples.classes}",
            remedy="give the model a store that fits",
            key="store",
        )


def _text(settings: msgspec.Struct) -> str:
    return msgspec.json.encode(settings).decode()
