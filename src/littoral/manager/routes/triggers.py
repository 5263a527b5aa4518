"""``/triggers``: when models are updated, and the signal that each trigger watches."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from sqlite3 import Connection
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool

from littoral.manager.manager import Manager
from littoral.manager.paging import Page, page, page_by_number
from littoral.manager.requests import STRICT, Document, Number, Once, Operator, Viewer, Wanted, resource
from littoral.manager.tokens import NAME
from littoral.manager.trigger_kinds import KINDS
from littoral.manager.trigger_rows import Signal, TriggerRow

_KIND = f"One of {', '.join(KINDS)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerAsked:
    """A trigger to make; what its settings are depends on its kind."""

    __pydantic_config__ = STRICT
    model: Annotated[str, Field(pattern=NAME)]
    kind: Annotated[str, Field(max_length=100, description=_KIND)]
    settings: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerChange:
    """What to change; null: as it is."""

    __pydantic_config__ = STRICT
    enabled: StrictBool | None = None
    settings: Document | None = None


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("triggers", "/triggers")
    triggers = manager.life.watches.rows

    @routes.get("")
    def list_triggers(
        window: Wanted, by: Viewer, model: Annotated[str | None, Query(pattern=NAME)] = None
    ) -> Page[TriggerRow]:
        """Triggers, the oldest first."""
        return page_by_number(triggers.all(model), window, lambda row: row.number)

    @routes.post("", status_code=201, response_model=TriggerRow)
    def create_trigger(body: TriggerAsked, by: Operator, asked: Once) -> Any:
        """A new trigger of a model."""

        def keep(connection: Connection) -> dict[str, Any]:
            made = triggers.create(connection, body.model, body.kind, body.settings, manager.now())
            told = {"kind": body.kind, "model": body.model, "by": by.name}
            manager.events.append(connection, "trigger.created", f"triggers/{made.number}", told)
            return asdict(made)

        return manager.idempotency.once(asked, keep)

    @routes.get("/{number}")
    def get_trigger(number: Number, by: Viewer) -> TriggerRow:
        """One trigger."""
        return triggers.get(number)

    @routes.patch("/{number}")
    def change_trigger(number: Number, body: TriggerChange, by: Operator) -> TriggerRow:
        """Switch a trigger on or off, or give it other settings; with these it begins afresh."""
        with manager.database.write() as connection:
            changed = triggers.change(connection, number, enabled=body.enabled, settings=body.settings)
            manager.events.append(connection, "trigger.changed", f"triggers/{number}", {"by": by.name})
        return changed

    @routes.delete("/{number}", status_code=204)
    def delete_trigger(number: Number, by: Operator) -> None:
        """Delete a trigger with its signal."""
        with manager.database.write() as connection:
            triggers.delete(connection, number)
            manager.events.append(connection, "trigger.deleted", f"triggers/{number}", {"by": by.name})

    @routes.get("/{number}/signal")
    def get_signal(number: Number, window: Wanted, by: Viewer) -> Page[Signal]:
        """Its level whenever it was asked, the oldest first; it fires at 1."""
        rows = triggers.signal(number, window.after_number, window.limit + 1)
        return page(rows, window, lambda point: point.number, lambda point: point)

    return routes
