"""Errors as the service tells them: problem+json (RFC 9457) for every refusal, and never a 5xx for bad input."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from littoral.errors import Infeasible, InputError, LittoralError, MissingExtra, RunFailed, brief
from littoral.manager.keys import EXPECTED, unknown_key
from littoral.manager.refusals import Conflict, NotAllowed, TooLarge, Unknown
from littoral.manager.writer import Busy

MEDIA = "application/problem+json"
INFEASIBLE = "urn:littoral:infeasible"  # the type of a problem that names a binding constraint
_UNKNOWN_KEY = "unexpected_keyword_argument"  # as pydantic calls it
_log = logging.getLogger(__name__)

_STATUS: list[tuple[type[LittoralError], int]] = [  # the first that fits
    (Unknown, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (NotAllowed, 403),
    (InputError, 422),
    (Infeasible, 409),
    (RunFailed, 409),
    (MissingExtra, 501),  # not wrong input: the operator has to install something
    (Busy, 503),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong and what to do about it. ``at`` names the field of the body or the parameter."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    remedy: str = ""
    at: str = ""


def told_as(status: int, description: str) -> dict[int | str, dict[str, Any]]:
    """A status of an operation, for the OpenAPI document."""
    return {
        status: {
            "description": description,
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A problem as a response."""
    return JSONResponse(asdict(problem), problem.status, headers=dict(headers or {}), media_type=MEDIA)


def problem(status: int, detail: str, *, remedy: str = "", at: str = "") -> Problem:
    """A problem of a status; its title is the status's own."""
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=_plain(detail), remedy=_plain(remedy), at=at)


def of_error(error: LittoralError) -> Problem:
    """What one of our errors says, without the places of files that only this machine has."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if isinstance(error, InputError):
        return problem(status, error.found, remedy=error.remedy, at=_plain(error.key or ""))
    told = problem(status, str(error))
    return replace(told, type=INFEASIBLE) if isinstance(error, Infeasible) else told


def install(app: FastAPI) -> None:
    """Have every error of the service told as a problem."""

    @app.exception_handler(LittoralError)
    def ours(request: Request, error: LittoralError) -> JSONResponse:
        headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, Busy) else {}
        return answer(of_error(error), headers)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(_of_validation(request, error.errors()))

    @app.exception_handler(HTTPException)
    def plain(request: Request, error: HTTPException) -> JSONResponse:
        headers = {**(error.headers or {}), **(_allowed(request) if error.status_code == 405 else {})}
        return answer(problem(error.status_code, str(error.detail)), headers)

    @app.exception_handler(ClientDisconnect)
    def gone(request: Request, error: ClientDisconnect) -> JSONResponse:
        return answer(problem(400, "the body was not sent to its end"))  # nobody hears it, and nobody failed

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> JSONResponse:
        _log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(problem(500, "the manager failed at this; its log says why"))


def _allowed(request: Request) -> dict[str, str]:
    """Every method that the document has for a path; by itself, Starlette names those of the first route only."""
    methods: set[str] = set()
    for path, operations in request.app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)), request.url.path):
            methods |= {method.upper() for method in operations}
    return {"Allow": ", ".join(sorted(methods))} if methods else {}


def _of_validation(request: Request, errors: Sequence[Any]) -> Problem:
    """Of the first error; of an unknown key before others, for it may be a missing one misspelt."""
    for error in errors:
        if error["type"] == _UNKNOWN_KEY:
            kind = request.scope["route"].body_field.field_info.annotation
            return of_error(unknown_key(kind, error["loc"][1:-1], str(error["loc"][-1])))
    first = errors[0] if errors else {"loc": (), "msg": "invalid"}
    at = ".".join(_plain(str(part)) for part in first["loc"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    found = f", found {brief(first['input'])}" if "input" in first and first.get("type") != "missing" else ""
    return problem(422, f"{at}: {first['msg']}{found}{more}", remedy=EXPECTED, at=at)


def _plain(text: str) -> str:
    """Always encodable, whatever was sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with the problems each operation may answer with."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = _SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status in _statuses(path, method, operation):
                operation["responses"][str(status)] = told_as(status, HTTPStatus(status).phrase)[status]
    return document


def _statuses(path: str, method: str, operation: Mapping[str, Any]) -> list[int]:
    found = [400, 405, 422]
    found += [401, 403] if operation.get("security") else []
    found += [404] if "{" in path or method == "post" else []  # a body may name what is not there
    found += [409] if method in ("post", "put", "delete") else []
    found += [413] if "requestBody" in operation else []
    found += [501] if operation.get("x-needs-extra") else []
    return found


_SCHEMA = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong and what to do about it (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "remedy": {"type": "string"},
        "at": {"type": "string", "description": "The field or parameter to blame."},
    },
    "required": ["type", "title", "status", "detail", "remedy", "at"],
    "additionalProperties": False,
}
