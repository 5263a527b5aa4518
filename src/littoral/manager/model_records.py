"""Models and versions as records, and where the database keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Annotated, Any, Literal

import msgspec

from littoral.learning.task import Task, load_task
from littoral.manager.gate import Gate
from littoral.manager.refusals import unknown

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


_CURRENT = "SELECT number FROM versions WHERE model = models.name AND state = 'current'"
MODELS = f"SELECT models.*, ({_CURRENT}) AS current FROM models"


def find_model(connection: Connection, name: str) -> Model:
    """The model, or what it may be called."""
    row = connection.execute(f"{MODELS} WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise unknown("model", name, [known["name"] for known in connection.execute("SELECT name FROM models")])
    return model_of(row)


def find_version(connection: Connection, name: str, number: int) -> Version:
    """One version of a model."""
    find_model(connection, name)
    row = connection.execute("SELECT * FROM versions WHERE model = ? AND number = ?", (name, number)).fetchone()
    if row is None:
        raise unknown(f"version of model {name!r}", number)
    return version_of(row)


def model_of(row: Row) -> Model:
    """From a row of ``MODELS``."""
    return Model(
        name=row["name"], task=row["task"], options=json.loads(row["options"]), store=row["store"],
        gate=msgspec.json.decode(row["gate"], type=Gate), current=row["current"], created=row["created"],
        training=msgspec.json.decode(row["training"], type=Training),
    )  # fmt: skip


def version_of(row: Row) -> Version:
    """From a row of ``versions``."""
    return Version(**{key: row[key] for key in row.keys()})  # noqa: SIM118 (not a dict)
