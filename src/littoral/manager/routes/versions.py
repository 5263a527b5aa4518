"""``/models/{name}/versions``, ``promote`` and ``rollback``: which weights are served."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from sqlite3 import Connection
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool

from littoral.manager.manager import Manager
from littoral.manager.model_records import Version
from littoral.manager.paging import Page, page_by_number
from littoral.manager.parcels import BINARY
from littoral.manager.refusals import Conflict
from littoral.manager.requests import STRICT, Name, Number, Once, Operator, Viewer, Wanted, resource

_WEIGHTS = {
    "required": True,
    "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Which version to serve. ``force`` does without the gate."""

    __pydantic_config__ = STRICT
    version: Annotated[int, Field(ge=1, lt=2**31, strict=True)]
    force: StrictBool = False


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("models", "/models/{name}")
    life, registry = manager.life, manager.life.registry

    @routes.get("/versions")
    def list_versions(name: Name, window: Wanted, by: Viewer) -> Page[Version]:
        """The versions of a model, the oldest first."""
        return page_by_number(registry.versions(name), window, lambda version: version.number)

    @routes.post("/versions", status_code=201, response_model=Version, openapi_extra={"requestBody": _WEIGHTS})
    async def add_version(name: Name, request: Request, by: Operator, asked: Once) -> Any:
        """Weights from elsewhere (safetensors, by their names in the model): a candidate, to be promoted."""
        body = await request.body()

        def keep(connection: Connection, file: str) -> dict[str, Any]:
            reason = f"given by {by.name}"
            version = registry.add(connection, name, file, reason=reason, now=manager.now())
            manager.events.append(connection, "version.added", f"models/{name}", {"version": version.number})
            return asdict(version)

        def work() -> dict[str, Any]:
            known = manager.idempotency.known(asked)
            if known is not None:
                return known
            file = life.keep_weights(name, body)
            return manager.idempotency.once(asked, lambda connection: keep(connection, file))

        return await run_in_threadpool(work)

    @routes.get(
        "/versions/{number}/weights", response_class=Response,
        responses={200: {"content": _WEIGHTS["content"], "description": "The weights, as safetensors"}},
    )  # fmt: skip
    def get_weights(name: Name, number: Number, by: Viewer) -> Response:
        """The weights of a version."""
        content = registry.weights.read(name, registry.version(name, number).file)
        return Response(content, media_type=BINARY)

    @routes.post("/promote", response_model=Version)
    def promote(name: Name, body: Promotion, by: Operator, asked: Once) -> Any:
        """Serve a version if the gate lets it pass on recent data. 409 says why not; the version is kept."""
        answer = manager.idempotency.known(asked)
        if answer is None:
            judged = None if body.force else life.judge(name, body.version)
            answer = manager.idempotency.once(
                asked, lambda connection: asdict(life.promote(connection, name, body.version, judged))
            )
        if answer["state"] != "current":
            remedy = "promote it with force if you know better"
            raise Conflict(f"version {body.version} did not pass the gate: {answer['reason']}", remedy=remedy)
        life.serving.refresh(name)
        return answer

    @routes.post("/rollback", response_model=Version)
    def rollback(name: Name, by: Operator, asked: Once) -> Any:
        """Serve the version that was served before; once more, the one before that."""
        answer = manager.idempotency.once(asked, lambda connection: asdict(life.rollback(connection, name)))
        life.serving.refresh(name)
        return answer

    return routes
