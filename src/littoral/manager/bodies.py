"""Bodies are counted while they are read: one that is larger than allowed is refused before it is all here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from littoral.manager.problems import answer, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STRANGERS = 65_536  # bytes


class BodyLimit:
    """ASGI middleware: 413 for a body of more than ``most`` bytes, whether its length was announced or not.

    Who has no valid token may send ``STRANGERS`` bytes: a body is read before anybody asks whose it is.
    """

    def __init__(self, app: ASGIApp, most: int, known: Callable[[str], bool]) -> None:
        self._app, self._most, self._known = app, most, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _announced(scope) > self._most:
            await answer(problem(413, self._reason, remedy=_REMEDY))(scope, receive, send)
        elif _announced(scope) > STRANGERS and not self._trusts(scope):
            await answer(problem(401, _STRANGER), {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            await self._app(scope, self._counted(scope, receive), send)

    def _trusts(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return kind.lower() == "bearer" and self._known(token.strip())

    @property
    def _reason(self) -> str:
        return f"the body is larger than {self._most} bytes"

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        read, trusted = 0, False

        async def counted() -> Message:
            nonlocal read, trusted
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._reason)
            if read > STRANGERS and not trusted:
                trusted = self._trusts(scope)
                if not trusted:
                    raise HTTPException(401, _STRANGER, {"WWW-Authenticate": "Bearer"})
            return message

        return counted


_STRANGER = "a valid bearer token is needed"
_REMEDY = "send less at a time, or start the service with a larger --body-limit"


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
