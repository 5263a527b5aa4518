"""Stores: each takes samples of one kind, keeps the newest, and sets some aside that are never trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Annotated, Any

import msgspec

from littoral.manager.database import Database
from littoral.manager.inputs import Kind
from littoral.manager.refusals import Conflict, unknown

_OVERHEAD = 120  # bytes that a sample takes besides its input: its row, and its place in three indices


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest are kept: at most so many samples, in about so many bytes. ``held_out`` is the share set aside."""

    most_samples: Annotated[int, msgspec.Meta(ge=10, le=100_000_000)] = 100_000
    most_bytes: Annotated[int, msgspec.Meta(ge=100_000, le=2**50)] = 2**30
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store as it is now. ``labelled`` counts every label that ever arrived: the store's own clock."""

    name: str
    kind: Kind
    retention: Retention
    created: float
    received: int
    labelled: int
    kept: int
    bytes: int


class Stores:
    """All stores of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> Store:
        """The store of that name."""
        with self._database.read() as connection:
            return find_store(connection, name)

    def all(self) -> list[Store]:
        """By name."""
        with self._database.read() as connection:
            return [_store(row) for row in connection.execute("SELECT * FROM stores ORDER BY name")]

    def create(self, connection: Connection, name: str, kind: Kind, retention: Retention, now: float) -> Store:
        """A new, empty store."""
        if connection.execute("SELECT 1 FROM stores WHERE name = ?", (name,)).fetchone():
            raise Conflict(f"there is a store {name!r} already", remedy="choose another name")
        connection.execute(
            "INSERT INTO stores (name, kind, most_samples, most_bytes, held_out, created) VALUES (?, ?, ?, ?, ?, ?)",
            (name, msgspec.json.encode(kind), retention.most_samples, retention.most_bytes, retention.held_out, now),
        )
        return find_store(connection, name)

    def retain(self, connection: Connection, name: str, retention: Retention) -> Store:
        """Change what is kept; samples beyond it go as new ones come. Who is held out already stays so."""
        find_store(connection, name)
        connection.execute(
            "UPDATE stores SET most_samples = ?, most_bytes = ?, held_out = ? WHERE name = ?",
            (retention.most_samples, retention.most_bytes, retention.held_out, name),
        )
        return find_store(connection, name)

    def delete(self, connection: Connection, name: str) -> None:
        """With its samples; refused while a model needs it."""
        find_store(connection, name)
        user = connection.execute("SELECT name FROM models WHERE store = ?", (name,)).fetchone()
        if user is not None:
            raise Conflict(f"store {name!r} feeds model {user['name']!r}", remedy="delete the model first")
        connection.execute("DELETE FROM stores WHERE name = ?", (name,))

    def counts(self, name: str) -> dict[str, Any]:
        """How much is there, and how often predictions were right."""
        with self._database.read() as connection:
            store = find_store(connection, name)
            row = connection.execute(
                "SELECT count(labelled) AS known, sum(held_out) AS held_out, "
                "sum(predicted IS NOT NULL AND actual IS NOT NULL) AS answered, sum(predicted = actual) AS right, "
                "min(at) AS oldest, max(at) AS newest FROM samples WHERE store = ?",
                (name,),
            ).fetchone()
        return {
            "store": name, "received": store.received, "kept": store.kept, "bytes": store.bytes,
            "labelled": row["known"], "held_out": row["held_out"] or 0,
            "accuracy": row["right"] / row["answered"] if row["answered"] else None,
            "oldest": row["oldest"], "newest": row["newest"],
        }  # fmt: skip


def find_store(connection: Connection, name: str) -> Store:
    """The store, or what it may be called."""
    row = connection.execute("SELECT * FROM stores WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise unknown("store", name, [known["name"] for known in connection.execute("SELECT name FROM stores")])
    return _store(row)


def trim(connection: Connection, store: Store, most: int) -> int:
    """Delete the oldest samples beyond what is kept, ``most`` at a time so that nobody waits; how many went.

    Their pages are used again by the samples that follow, so the file stays as large as it was.
    """
    row = connection.execute("SELECT kept, bytes FROM stores WHERE name = ?", (store.name,)).fetchone()
    many = row["kept"] - store.retention.most_samples
    heavy = row["bytes"] - store.retention.most_bytes
    if heavy > 0:
        many = max(many, -(-heavy * row["kept"] // row["bytes"]))  # all weigh about the same
    if many <= 0:
        return 0
    weights = [
        gone["weight"]
        for gone in connection.execute(
            "DELETE FROM samples WHERE number IN (SELECT number FROM samples WHERE store = ? ORDER BY number LIMIT ?) "
            "RETURNING weight",
            (store.name, min(many, most)),
        )
    ]
    connection.execute(
        "UPDATE stores SET kept = kept - ?, bytes = bytes - ? WHERE name = ?", (len(weights), sum(weights), store.name)
    )
    return len(weights)


def weigh(id: str, content: bytes) -> int:
    """What a sample takes in the file, about."""
    return len(content) + 2 * len(id) + _OVERHEAD


def _store(row: Row) -> Store:
    retention = Retention(most_samples=row["most_samples"], most_bytes=row["most_bytes"], held_out=row["held_out"])
    plain: Mapping[str, Any] = {key: row[key] for key in ("name", "created", "received", "labelled", "kept", "bytes")}
    return Store(kind=msgspec.json.decode(row["kind"], type=Kind), retention=retention, **plain)
