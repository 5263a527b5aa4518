"""Bodies are counted while they are read: one that is larger than allowed is refused before it is all here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from littoral.manager.problems import answer, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware: 413 for a body of more than ``most`` bytes, whether its length was announced or not."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _announced(scope) > self._most:
            await answer(problem(413, self._reason, remedy=_REMEDY))(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    @property
    def _reason(self) -> str:
        return f"the body is larger than {self._most} bytes"

    def _counted(self, receive: Receive) -> Receive:
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._reason)
            return message

        return counted


_REMEDY = "send less at a time, or start the service with a larger --body-limit"


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
