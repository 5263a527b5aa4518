"""``/models/{name}/update`` and ``/updates``: ask for updates, follow them, give them up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from littoral.manager.manager import Manager
from littoral.manager.paging import Page, page
from littoral.manager.requests import STRICT, Name, Number, Once, Operator, Viewer, Wanted, resource
from littoral.manager.updates import Update


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Why an update is asked for."""

    __pydantic_config__ = STRICT
    why: Annotated[str, Field(max_length=500)] = "asked for by hand"


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("updates")
    life, updates = manager.life, manager.life.updates

    @routes.post("/models/{name}/update", status_code=201, response_model=Update)
    def update_model(name: Name, body: Wish, by: Operator, asked: Once) -> Any:
        """Update a model now, whatever its triggers say. 409 while another update is under way."""
        return manager.idempotency.once(
            asked, lambda connection: asdict(updates.request(connection, name, body.why, manager.now()))
        )

    @routes.get("/models/{name}/updates")
    def list_updates(name: Name, window: Wanted, by: Viewer) -> Page[Update]:
        """The updates of a model, the newest first."""
        rows = updates.of_model(name, window.after_number, window.limit + 1)
        return page(rows, window, lambda update: update.number, lambda update: update)

    @routes.get("/updates/{number}")
    def get_update(number: Number, by: Viewer) -> Update:
        """One update."""
        return updates.get(number)

    @routes.post("/updates/{number}/give-up")
    def give_up(number: Number, by: Operator) -> Update:
        """End an update without a result, and stop its run."""
        with manager.database.write() as connection:
            update = updates.give_up(connection, number, manager.now(), f"given up by {by.name}")
        life.stop_run(update)
        return update

    return routes
