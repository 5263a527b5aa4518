"""What routes ask of a request: a token of the right role, a window of a list, an idempotency key.

Use them as annotations: ``def route(window: Wanted, token: Operator, asked: Once)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Header, HTTPException, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import ConfigDict

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


def needs(*roles: Role) -> Callable[..., Awaitable[Token]]:
    """A dependency: the request's token, which must have one of the roles or be an operator's."""

    async def token_of(request: Request, credentials: Credentials) -> Token:
        token = manager_of(request).tokens.find(credentials.credentials) if credentials else None
        if token is None:
            raise HTTPException(401, "a valid bearer token is needed", {"WWW-Authenticate": "Bearer"})
        if token.role is not Role.OPERATOR and token.role not in roles:
            allowed = " or ".join(sorted({*roles, Role.OPERATOR}))
            raise NotAllowed(f"this needs a token of the role {allowed}; {token.name!r} is {token.role}")
        return token

    return token_of


Viewer = Annotated[Token, Depends(needs(Role.VIEWER))]
Ingest = Annotated[Token, Depends(needs(Role.INGEST))]
Operator = Annotated[Token, Depends(needs(Role.OPERATOR))]


def _window(
    limit: Annotated[int, Query(ge=1, le=LARGEST, description="How many at most.")] = 50,
    after: Annotated[str | None, Query(max_length=200, description="The 'next' of the page before.")] = None,
) -> Window:
    return Window(limit=limit, after=after)


async def _asked(
    request: Request,
    credentials: Credentials,
    key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[\x21-\x7e]+$")] = None,
) -> Asked:
    owner = hashlib.sha256(credentials.credentials.encode()).hexdigest() if credentials else ""
    return Asked(owner=owner, key=key, digest=_digest(request, await request.body()))


def _digest(request: Request, body: bytes) -> str:
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(head + body).hexdigest()


Wanted = Annotated[Window, Depends(_window)]
Once = Annotated[Asked, Depends(_asked)]
Document = dict[str, Any]
STRICT = ConfigDict(extra="forbid")  # the ``__pydantic_config__`` of a body: other keys are refused
