"""``/health``: whether the manager can do its work, and ``/health/live``: whether it answers at all. Need no token."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import JSONResponse

import littoral
from littoral.manager.health import find_faults
from littoral.manager.manager import Manager
from littoral.manager.problems import answer, problem, told_as
from littoral.manager.requests import resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``ok`` means that a request would be served; ``checked`` is what was looked at."""

    status: str
    version: str
    checked: list[str]


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("health")

    @routes.get("/health", response_model=Health, responses=told_as(503, "Not ready"))
    def health() -> Health | JSONResponse:
        """Whether the manager can do its work; 503 says what is wrong."""
        manager.events.last()  # the database can be read
        checks = find_faults(manager)
        faults = [f"{name}: {fault}" for name, fault in checks.items() if fault]
        if faults:
            return answer(problem(503, "; ".join(faults), remedy="see the operator's guide"))
        return Health(status="ok", version=littoral.__version__, checked=list(checks))

    @routes.get("/health/live")
    async def live() -> Health:
        """Whether the manager answers at all."""
        return Health(status="ok", version=littoral.__version__, checked=[])

    return routes
