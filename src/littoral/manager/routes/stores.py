"""``/stores``: where samples of deployed models are kept, what they are, and how many."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from sqlite3 import Connection
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import Field, WithJsonSchema

from littoral.manager.inputs import Kind
from littoral.manager.keys import complaint
from littoral.manager.manager import Manager
from littoral.manager.paging import Page, page_by_name
from littoral.manager.requests import STRICT, Document, Name, Once, Operator, Viewer, Wanted, resource
from littoral.manager.stores import Retention, Store
from littoral.manager.tokens import NAME


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of settings, for the OpenAPI document."""
    found: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]
    return found


KindGiven = Annotated[Document, WithJsonSchema(schema_of(Kind))]
RetentionGiven = Annotated[Document, WithJsonSchema(schema_of(Retention))]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAsked:
    """A store to make: what it takes, and how much of it is kept."""

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(pattern=NAME)]
    input: KindGiven
    retention: RetentionGiven = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecord:
    """A store. ``received`` and ``labelled`` count all that ever arrived, ``kept`` and ``bytes`` what is there."""

    name: str
    input: dict[str, Any]
    retention: dict[str, Any]
    created: float
    received: int
    labelled: int
    kept: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a store holds now; ``accuracy`` of predictions whose truth is known, null: none."""

    store: str
    received: int
    kept: int
    bytes: int
    labelled: int
    held_out: int
    accuracy: float | None
    oldest: float | None
    newest: float | None


def settings(given: Document, kind: type[Any], key: str) -> Any:
    """Checked settings of a request."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise complaint(error, kind, key) from error


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("stores", "/stores")
    stores = manager.life.stores

    @routes.get("")
    def list_stores(window: Wanted, by: Viewer) -> Page[StoreRecord]:
        """All stores."""
        return page_by_name(stores.all(), window, lambda store: store.name, _record)

    @routes.post("", status_code=201, response_model=StoreRecord)
    def create_store(body: StoreAsked, by: Operator, asked: Once) -> Any:
        """A new, empty store."""
        kind, retention = settings(body.input, Kind, "input"), settings(body.retention, Retention, "retention")

        def keep(connection: Connection) -> dict[str, Any]:
            store = stores.create(connection, body.name, kind, retention, manager.now())
            manager.events.append(connection, "store.created", f"stores/{body.name}", {"by": by.name})
            return asdict(_record(store))

        return manager.idempotency.once(asked, keep)

    @routes.get("/{name}")
    def get_store(name: Name, by: Viewer) -> StoreRecord:
        """One store."""
        return _record(stores.get(name))

    @routes.patch("/{name}")
    def change_store(name: Name, retention: RetentionGiven, by: Operator) -> StoreRecord:
        """Keep more or less from now on; what is not given becomes the default."""
        wanted = settings(retention, Retention, "retention")
        with manager.database.write() as connection:
            return _record(stores.retain(connection, name, wanted))

    @routes.delete("/{name}", status_code=204)
    def delete_store(name: Name, by: Operator) -> None:
        """Delete a store with its samples; refused while a model needs it."""
        with manager.database.write() as connection:
            stores.delete(connection, name)
            manager.events.append(connection, "store.deleted", f"stores/{name}", {"by": by.name})

    @routes.get("/{name}/counts")
    def count_samples(name: Name, by: Viewer) -> Counts:
        """How much is there, and how often predictions were right."""
        return Counts(**stores.counts(name))

    return routes


def _record(store: Store) -> StoreRecord:
    return StoreRecord(
        name=store.name, input=msgspec.to_builtins(store.kind), retention=msgspec.to_builtins(store.retention),
        created=store.created, received=store.received, labelled=store.labelled, kept=store.kept, bytes=store.bytes,
    )  # fmt: skip
