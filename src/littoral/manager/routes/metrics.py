"""``/metrics``: figures for Prometheus. A viewer's token is needed, also from this machine: a proxy is on loopback."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from littoral.manager.manager import Manager
from littoral.manager.requests import Viewer, resource


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("health")

    @routes.get("/metrics", response_class=PlainTextResponse)
    def get_metrics(request: Request, by: Viewer) -> PlainTextResponse:
        """All figures, as Prometheus reads them."""
        text = request.app.state.metrics.text()
        return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return routes
