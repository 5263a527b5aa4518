"""``/devices`` and ``/apps``: the live map of all continuums, and an operator's pardon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.requests import Name, Operator, Viewer, Wanted
from littoral.manager.tokens import NAME

Continuum = Annotated[str | None, Query(pattern=NAME, description="Only of this continuum.")]
State = Annotated[
    Literal["idle", "working", "lost", "done", "excluded"] | None, Query(description="Only in this state.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pardon:
    """How many strikes were forgiven."""

    device: str
    forgiven: int


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["devices"])

    @routes.get("/devices")
    def list_devices(
        window: Wanted, by: Viewer, continuum: Continuum = None, state: State = None
    ) -> Page[DeviceRecord]:
        """Every device: what it is, what it is doing, and the strikes against it."""
        return manager.devices.listed(window, continuum, state)

    @routes.get("/apps")
    def list_apps(window: Wanted, by: Viewer, continuum: Continuum = None) -> Page[AppRecord]:
        """Every background app, and the deadlines it misses in the runs at work."""
        return manager.devices.apps(window, continuum)

    @routes.post("/devices/{name}/pardon")
    def pardon_device(name: Name, by: Operator) -> Pardon:
        """Forgive a device its strikes. Doing it twice is doing it once, so it takes no idempotency key."""
        forgiven = manager.devices.pardon(name)
        with manager.database.write() as connection:
            manager.events.append(
                connection, "device.pardoned", f"devices/{name}", {"forgiven": forgiven, "by": by.name}
            )
        return Pardon(device=name, forgiven=forgiven)

    return routes
