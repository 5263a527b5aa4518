"""The manager over HTTP: one router per resource, one way to tell errors, one OpenAPI document that is true."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import littoral
from littoral.manager import problems
from littoral.manager.bodies import BodyLimit
from littoral.manager.manager import Manager
from littoral.manager.metrics import Metrics
from littoral.manager.observing import Observed
from littoral.manager.routes import routers

_TITLE = "Littoral manager"


def make_app(manager: Manager, *, page: bool = False, secure: bool = False) -> FastAPI:
    """The service of a manager; the manager is started and stopped with it. ``secure``: it is served over TLS."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        manager.start()
        try:
            yield
        finally:
            manager.stop()

    app = FastAPI(title=_TITLE, version=littoral.__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.state.manager, app.state.metrics = manager, Metrics(manager)
    problems.install(app)
    app.add_middleware(BodyLimit, most=manager.options.body_limit)
    app.add_middleware(Observed, metrics=app.state.metrics)
    for router in routers(manager):
        app.include_router(router)
    if page:
        from littoral.manager.page.install import install  # late: NiceGUI takes a second

        install(app, manager, secure=secure)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        plain = get_openapi(title=app.title, version=app.version, routes=app.routes)
        app.openapi_schema = problems.describe(plain)
    return app.openapi_schema
