"""What routes ask of a request: a token of the right role, a window of a list, an idempotency key.

Use them as annotations: ``def route(window: Wanted, token: Operator, asked: Once)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import ConfigDict

from littoral.manager.bodies import trust
from littoral.manager.idempotency import Asked
from littoral.manager.paging import LARGEST, Window
from littoral.manager.refusals import NotAllowed
from littoral.manager.tokens import NAME, Role, Token

if TYPE_CHECKING:
    from littoral.manager.manager import Manager

_bearer = HTTPBearer(auto_error=False, description="A token made with 'littoral token create'.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
Name = Annotated[str, Path(pattern=NAME, description="A name: letters, digits, '.', '-' and '_'.")]
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


def manager_of(request: Request) -> Manager:
    """The manager that a request is for."""
    manager: Manager = request.app.state.manager
    return manager


class Needs:
    """A dependency: the request's token, which must have one of the roles or be an operator's."""

    def __init__(self, *roles: Role) -> None:
        self._roles = roles

    async def __call__(self, request: Request, credentials: Credentials) -> Token:
        token: Token = request.state.token  # see Guarded; credentials are for the document
        return token

    async def check(self, request: Request) -> None:
        """Refuse a request whose token does not do, and let the body of any other be read."""
        credentials = await _bearer(request)
        token = manager_of(request).tokens.find(credentials.credentials) if credentials else None
        if token is None:
            raise HTTPException(401, "a valid bearer token is needed", {"WWW-Authenticate": "Bearer"})
        if token.role is not Role.OPERATOR and token.role not in self._roles:
            allowed = " or ".join(sorted({*self._roles, Role.OPERATOR}))
            raise NotAllowed(f"this needs a token of the role {allowed}; {token.name!r} is {token.role}")
        request.state.token = token
        trust(request.scope)


class Guarded(APIRoute):
    """A route that asks for the token first: by itself, FastAPI reads and parses the body before it asks anybody."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        guards = [needed.call for needed in self.dependant.dependencies if isinstance(needed.call, Needs)]

        async def guarded(request: Request) -> Response:
            for guard in guards:
                await guard.check(request)
            return await handle(request)

        return guarded


def resource(name: str, prefix: str = "") -> APIRouter:
    """A router for the routes of a resource."""
    return APIRouter(prefix=prefix, tags=[name], route_class=Guarded)


Viewer = Annotated[Token, Depends(Needs(Role.VIEWER))]
Ingest = Annotated[Token, Depends(Needs(Role.INGEST))]
Operator = Annotated[Token, Depends(Needs(Role.OPERATOR))]


def _window(
    limit: Annotated[int, Query(ge=1, le=LARGEST, description="How many at most.")] = 50,
    after: Annotated[str | None, Query(max_length=200, description="The 'next' of the page before.")] = None,
) -> Window:
    return Window(limit=limit, after=after)


async def _asked(
    request: Request,
    key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[\x21-\x7e]+$")] = None,
) -> Asked:
    return Asked(owner=request.state.token.id, key=key, digest=_digest(request, await request.body()))


def _digest(request: Request, body: bytes) -> str:
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(head + body).hexdigest()


Wanted = Annotated[Window, Depends(_window)]
Once = Annotated[Asked, Depends(_asked)]
Document = dict[str, Any]
STRICT = ConfigDict(extra="forbid")  # the ``__pydantic_config__`` of a body: other keys are refused
