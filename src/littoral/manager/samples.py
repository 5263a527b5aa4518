"""Samples: what a deployed model was shown, what it said, and what was true, as soon as that is known.

Every sample has an id, the client's or a new one; the same id again is accepted once. A hash of the id decides whether
a sample is held out, so the decision is the same wherever and whenever it is made.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from littoral.manager.database import Database
from littoral.manager.inputs import Kind, at_index
from littoral.manager.sample_rows import Batch, Row, checked_rows
from littoral.manager.stores import Stores, find_store, trim, weigh
from littoral.manager.writer import Writer

_LEAST_TRIM = 256
Labelled = tuple[NDArray[Any], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a batch: ``ids`` in its order, of which ``accepted`` were new."""

    ids: list[str]
    accepted: int
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A prediction whose truth is known. ``labelled`` is its place in the order in which truths arrived."""

    labelled: int
    at: float
    right: bool
    version: int | None


class Samples:
    """Samples in and out. Adding and labelling return when it is on the disk."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self.stores = Stores(database)
        self._database, self._clock = database, clock
        self._writer = Writer(database)

    def add(self, store: str, batch: Batch) -> Added:
        """Keep a batch: all of it, or none if anything in it is wrong."""
        added: Added = self.submit(store, batch).result()
        return added

    def submit(self, store: str, batch: Batch) -> Future[Any]:
        """The same, without waiting for the disk."""
        rows = checked_rows(self.stores.get(store), batch, self._clock())
        return self._writer.submit(lambda connection: _insert(connection, store, rows), len(rows))

    def label(self, store: str, labels: Sequence[tuple[str, int]]) -> Future[Any]:
        """Truths that arrive later; the future's result is the ids that the store does not have (any more)."""
        kind = self.stores.get(store).kind
        for index, (_, actual) in enumerate(labels):
            if kind.label(index, actual, "the label") is None:
                raise at_index(index, "no label", f"give a whole number in 0..{kind.classes - 1}")
        return self._writer.submit(lambda connection: _label(connection, store, labels), len(labels))

    @property
    def waiting(self) -> int:
        """Samples that are not on the disk yet."""
        return self._writer.waiting

    def close(self) -> None:
        """After everything that was submitted is on the disk."""
        self._writer.close()

    # -- out ----------------------------------------------------------------------------------------------------

    def outcomes(self, store: str, after: int, most: int) -> list[Outcome]:
        """Of labels that came after ``after``, in order; the newest ``most`` of them."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT labelled, at, predicted = actual AS right, version FROM samples "
                "WHERE store = ? AND labelled > ? AND predicted IS NOT NULL ORDER BY labelled DESC LIMIT ?",
                (store, after, most),
            ).fetchall()
        return [
            Outcome(labelled=row["labelled"], at=row["at"], right=bool(row["right"]), version=row["version"])
            for row in reversed(rows)
        ]

    def listed(self, store: str, after: int, most: int) -> list[dict[str, Any]]:
        """Samples without their inputs, the oldest first, with numbers above ``after``."""
        with self._database.read() as connection:
            find_store(connection, store)
            rows = connection.execute(
                "SELECT number, id, at, predicted, actual, version, held_out FROM samples "
                "WHERE store = ? AND number > ? ORDER BY number LIMIT ?",
                (store, after, most),
            ).fetchall()
        return [{**dict(row), "held_out": bool(row["held_out"])} for row in rows]

    def labelled(self, store: str, *, held_out: bool, upto: int, most: int) -> Labelled:
        """Inputs and labels, the newest ``most`` up to the label number ``upto``, the oldest first."""
        with self._database.read() as connection:
            kind = find_store(connection, store).kind
            rows = connection.execute(
                "SELECT actual, input FROM samples WHERE store = ? AND labelled <= ? AND held_out = ? "
                "ORDER BY labelled DESC LIMIT ?",
                (store, upto, held_out, most),
            ).fetchall()
        return _arrays(kind, [(row["input"], row["actual"]) for row in reversed(rows)])

    def held_out_since(self, store: str, after: int) -> int:
        """How many held-out samples got their label after ``after``."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT count(*) AS found FROM samples WHERE store = ? AND labelled > ? AND held_out", (store, after)
            ).fetchone()
        return int(row["found"])

    def older(self, store: str, *, upto: int, beyond: int, most: int, dice: random.Random) -> Labelled:
        """Of those to train on that are older than the newest ``beyond``, ``most`` drawn at random."""
        with self._database.read() as connection:
            kind = find_store(connection, store).kind
            rows = connection.execute(
                "SELECT number FROM samples WHERE store = ? AND labelled <= ? AND NOT held_out "
                "ORDER BY labelled DESC LIMIT -1 OFFSET ?",
                (store, upto, beyond),
            ).fetchall()
            numbers = sorted(dice.sample([row["number"] for row in rows], min(most, len(rows))))
            drawn = connection.execute(
                "SELECT actual, input FROM samples WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number",
                (json.dumps(numbers),),
            ).fetchall()
        return _arrays(kind, [(row["input"], row["actual"]) for row in drawn])


def _insert(connection: Connection, name: str, rows: list[Row]) -> Added:
    store = find_store(connection, name)
    asked = json.dumps([row[0] for row in rows])
    seen = {
        row["id"]
        for row in connection.execute(
            "SELECT id FROM samples WHERE store = ? AND id IN (SELECT value FROM json_each(?))", (name, asked)
        )
    }
    labelled, weight, fresh = store.labelled, 0, []
    for id, at, predicted, actual, version, aside, content in rows:
        if id in seen:
            continue
        seen.add(id)
        labelled += actual is not None
        weight += weigh(id, content)
        place = labelled if actual is not None else None
        fresh.append((name, id, at, predicted, actual, version, aside, place, weigh(id, content), content))
    connection.executemany(
        "INSERT INTO samples (store, id, at, predicted, actual, version, held_out, labelled, weight, input) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        fresh,
    )
    connection.execute(
        "UPDATE stores SET received = received + ?, kept = kept + ?, bytes = bytes + ?, labelled = ? WHERE name = ?",
        (len(fresh), len(fresh), weight, labelled, name),
    )
    trim(connection, store, max(_LEAST_TRIM, 2 * len(fresh)))
    return Added(ids=[row[0] for row in rows], accepted=len(fresh), repeated=len(rows) - len(fresh))


def _label(connection: Connection, name: str, labels: Iterable[tuple[str, int]]) -> list[str]:
    place, unknown = find_store(connection, name).labelled, []
    for id, actual in labels:
        row = connection.execute(
            "SELECT number, labelled FROM samples WHERE store = ? AND id = ?", (name, id)
        ).fetchone()
        if row is None:
            unknown.append(id)
            continue
        place += row["labelled"] is None  # one that is corrected keeps its place
        connection.execute(
            "UPDATE samples SET actual = ?, labelled = coalesce(labelled, ?) WHERE number = ?",
            (actual, place, row["number"]),
        )
    connection.execute("UPDATE stores SET labelled = ? WHERE name = ?", (place, name))
    return unknown


def _arrays(kind: Kind, rows: Sequence[tuple[bytes, int]]) -> Labelled:
    content = b"".join(row[0] for row in rows)
    inputs = np.frombuffer(content, dtype=kind.dtype).reshape(len(rows), *kind.shape)
    return inputs, np.array([row[1] for row in rows], dtype=np.int64)
