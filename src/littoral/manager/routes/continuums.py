"""``/continuums``: what there is to train on, each replaced as a whole by its name."""

from __future__ import annotations

from fastapi import APIRouter

from littoral.manager.continuums import ContinuumRecord
from littoral.manager.devices import StoreRecord
from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.requests import Document, Name, Operator, Viewer, Wanted, resource


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("continuums", "/continuums")

    @routes.get("")
    def list_continuums(window: Wanted, by: Viewer) -> Page[ContinuumRecord]:
        """All continuums."""
        return manager.continuums.listed(window)

    @routes.get("/{name}")
    def get_continuum(name: Name, by: Viewer) -> ContinuumRecord:
        """One continuum, its document with every default written out."""
        return manager.continuums.get(name)

    @routes.get("/{name}/stores")
    def list_continuum_stores(name: Name, by: Viewer) -> Page[StoreRecord]:
        """Where a continuum's training data lies."""
        return Page(items=manager.devices.stores(name))

    @routes.put("/{name}")
    def put_continuum(name: Name, document: Document, by: Operator) -> ContinuumRecord:
        """Keep a continuum: the content of its YAML file, as JSON. Jobs that exist keep the one they were given."""
        continuum = manager.continuums.check(name, document)
        with manager.database.write() as connection:
            return manager.continuums.put(connection, name, continuum)

    @routes.delete("/{name}", status_code=204)
    def delete_continuum(name: Name, by: Operator) -> None:
        """Forget a continuum."""
        with manager.database.write() as connection:
            manager.continuums.delete(connection, name)

    return routes
