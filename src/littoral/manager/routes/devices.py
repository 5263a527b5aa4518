"""``/devices`` and ``/apps``: the live map of all continuums, heartbeats, and an operator's pardon."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.refusals import unknown
from littoral.manager.requests import STRICT, Ingest, Name, Operator, Viewer, Wanted, resource
from littoral.manager.tokens import NAME
from littoral.profiling.rows import State as Load

Continuum = Annotated[str | None, Query(pattern=NAME, description="Only of this continuum.")]
State = Annotated[
    Literal["idle", "working", "lost", "done", "excluded"] | None, Query(description="Only in this state.")
]


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Rate = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTold:
    """How busy a device is: shares of what it has, runnable threads per core, and what it moves."""

    __pydantic_config__ = STRICT
    cpu: Share = 0.0
    memory: Share = 0.0
    gpu: Share = 0.0
    gpu_memory: Share = 0.0
    pressure: Share = 0.0
    stalled: Share = 0.0
    load: Rate = 0.0
    disk_bytes_per_s: Rate = 0.0
    network_bytes_per_s: Rate = 0.0
    memory_bytes_per_s: Rate = 0.0
    celsius: Annotated[float | None, Field(ge=-100, le=1000, allow_inf_nan=False, strict=True)] = None
    pace: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A device is there. ``sent`` is its own clock, in seconds since 1970."""

    __pydantic_config__ = STRICT
    sent: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False, strict=True)]
    load: LoadTold = LoadTold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When the beat was heard, and after how many seconds of silence the device counts as lost."""

    device: str
    heard: float
    lost_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pardon:
    """How many strikes were forgiven."""

    device: str
    forgiven: int


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("devices")

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

    @routes.post("/devices/{name}/heartbeat")
    def hear_device(name: Name, beat: Heartbeat, by: Ingest) -> Heard:
        """A device says that it is there and how busy it is; one older than the last is refused."""
        if not manager.devices.is_known(name):
            raise unknown("device", name)
        heard = manager.monitor.receive(name, beat.sent, Load(**asdict(beat.load))).heard
        return Heard(device=name, heard=heard, lost_after_s=manager.monitor.lost_after_s)

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
