"""``/models/{name}/predict``: answers of the version that is served; one version per answer."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool

from littoral.errors import InputError
from littoral.manager.manager import Manager
from littoral.manager.model_calls import Prediction
from littoral.manager.parcels import BINARY, read_inputs
from littoral.manager.requests import Name, Needs, resource
from littoral.manager.routes.samples import ANNOUNCED, INPUT, is_binary
from littoral.manager.serving import LARGEST_BATCH
from littoral.manager.tokens import Role, Token

Asking = Annotated[Token, Depends(Needs(Role.VIEWER, Role.INGEST))]  # also what delivers samples wants to know
_INPUTS = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "inputs": {"type": "array", "items": INPUT, "minItems": 1, "maxItems": LARGEST_BATCH},
                    **ANNOUNCED,
                },
                "required": ["inputs"],
                "additionalProperties": False,
            }
        },
        BINARY: {"schema": {"type": "string", "format": "binary", "description": "The inputs, one after the other."}},
    },
}


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("models")

    @routes.post(
        "/models/{name}/predict",
        response_model=Prediction,
        openapi_extra={"requestBody": _INPUTS, "x-needs-extra": "train"},
    )
    async def predict(name: Name, request: Request, by: Asking) -> Any:
        """Ask the version that is served."""
        body, binary = await request.body(), is_binary(request)
        return await run_in_threadpool(_answer, manager, name, body, binary)

    return routes


def _answer(manager: Manager, name: str, body: bytes, binary: bool) -> Response:
    serving = manager.life.serving
    inputs = read_inputs(serving.kind(name), body, binary)
    if len(inputs) > LARGEST_BATCH:
        raise InputError(f"{len(inputs)} inputs at once", remedy=f"send at most {LARGEST_BATCH}")
    answer = serving.predict(name, inputs)
    told = {
        "model": name, "version": answer.version, "labels": answer.labels,
        "probabilities": answer.probabilities.tolist(),
    }  # fmt: skip
    return Response(msgspec.json.encode(told), media_type="application/json")
