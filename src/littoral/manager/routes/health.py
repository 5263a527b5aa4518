"""``/health``: whether the manager answers and its database can be read. Needs no token."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

import littoral
from littoral.manager.manager import Manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``ok`` means that a request would be served."""

    status: str
    version: str


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health")
    def health() -> Health:
        """Whether the manager can serve."""
        manager.events.last()
        return Health(status="ok", version=littoral.__version__)

    return routes
