"""Models and their versions: which one is served, which came before, and why another was not promoted.

Everything that changes what is served is one transaction. Methods with a ``connection`` are part of the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Annotated, Any, Literal

import msgspec

from littoral.errors import InputError
from littoral.learning.task import Task, load_task
from littoral.manager.database import Database
from littoral.manager.gate import Gate, Score
from littoral.manager.inputs import Kind
from littoral.manager.refusals import Conflict, unknown
from littoral.manager.stores import find_store
from littoral.manager.weights import Weights

State = Literal["candidate", "current", "refused", "retired"]


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an update trains: on the newest ``window`` labelled samples that are not held out.

    ``rehearsal`` adds older ones, as a share of the whole training set, against forgetting. ``job`` is a job's
    document without its task, ``options`` say how to run it. A failed run is tried ``attempts`` times in all.
    """

    window: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 10_000
    rehearsal: Annotated[float, msgspec.Meta(ge=0, le=0.9)] = 0.0
    least_samples: Annotated[int, msgspec.Meta(ge=1)] = 100
    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 2
    job: dict[str, Any] = {}
    options: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Weights with a number; ``reason`` says why it is what it is. Scores are on data that was recent when judged."""

    model: str
    number: int
    file: str
    parent: int | None
    run: str | None
    state: State
    reason: str
    accuracy: float | None
    judged_on: int | None
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A name for a task, a store, a gate, and the version that is served; None before the first."""

    name: str
    task: str
    options: dict[str, Any]
    store: str
    gate: Gate
    training: Training
    current: int | None
    created: float

    def make_task(self) -> Task:
        """The task that gives its architecture."""
        return load_task(self.task, self.options)


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
            return [_model(row) for row in connection.execute(f"{_MODELS} ORDER BY name")]

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
        return [_version(row) for row in rows]

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


_CURRENT = "SELECT number FROM versions WHERE model = models.name AND state = 'current'"
_MODELS = f"SELECT models.*, ({_CURRENT}) AS current FROM models"


def find_model(connection: Connection, name: str) -> Model:
    """The model, or what it may be called."""
    row = connection.execute(f"{_MODELS} WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise unknown("model", name, [known["name"] for known in connection.execute("SELECT name FROM models")])
    return _model(row)


def find_version(connection: Connection, name: str, number: int) -> Version:
    """One version of a model."""
    find_model(connection, name)
    row = connection.execute("SELECT * FROM versions WHERE model = ? AND number = ?", (name, number)).fetchone()
    if row is None:
        raise unknown(f"version of model {name!r}", number)
    return _version(row)


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


def _model(row: Row) -> Model:
    return Model(
        name=row["name"], task=row["task"], options=json.loads(row["options"]), store=row["store"],
        gate=msgspec.json.decode(row["gate"], type=Gate), current=row["current"], created=row["created"],
        training=msgspec.json.decode(row["training"], type=Training),
    )  # fmt: skip


def _version(row: Row) -> Version:
    return Version(**{key: row[key] for key in row.keys()})  # noqa: SIM118 (not a dict)
