"""Bodies are counted while they are read: one that is larger than allowed is refused before it is all here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from littoral.manager.problems import answer, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STRANGERS = 65_536  # bytes
_ALLOWANCE = "littoral.allowance"
_REMEDY = "send less at a time, or start the service with a larger --body-limit"


@dataclass
class _Allowance:
    """How many bytes a request may send."""

    trusted: int
    now: int


def trust(scope: Scope) -> None:
    """Let a request send as much as anybody may: its token was seen."""
    allowance: _Allowance = scope[_ALLOWANCE]
    allowance.now = allowance.trusted


class BodyLimit:
    """ASGI middleware: 413 for a body of more than ``most`` bytes, whether its length was announced or not.

    A resource reads no body before it has seen a valid token (see ``requests``). What the page reads of people who
    have shown none yet, such as the form of the login, is at most ``STRANGERS`` bytes.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _announced(scope) > self._most:
            await answer(problem(413, _reason(self._most), remedy=_REMEDY))(scope, receive, send)
        else:
            allowance = scope[_ALLOWANCE] = _Allowance(self._most, min(self._most, STRANGERS))
            await self._app(scope, _counted(receive, allowance), send)


def _counted(receive: Receive, allowance: _Allowance) -> Receive:
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > allowance.now:
            raise HTTPException(413, _reason(allowance.now))
        return message

    return counted


def _reason(most: int) -> str:
    return f"the body is larger than {most} bytes"


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
