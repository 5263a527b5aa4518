"""Every request has an id, is timed and counted, and leaves a line in the log; none of its body is looked at."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from littoral.manager.logs import REQUEST
from littoral.manager.problems import answer, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from littoral.manager.metrics import Metrics

HEADER = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9-]{8,64}")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_MANY = ("/models/{name}/predict", "/stores/{name}/samples", "/devices/{name}/heartbeat")
_LEFT = 499  # the client was gone before it was answered
_log = logging.getLogger(__name__)


class Observed:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, send)
        before = REQUEST.set(request.id)
        try:
            with self._metrics.in_flight.track_inprogress():
                await self._answered(scope, receive, request)
        finally:
            self._metrics.count(request.method, request.route, request.status, request.seconds)
            request.log()
            REQUEST.reset(before)

    async def _answered(self, scope: Scope, receive: Receive, request: _Request) -> None:
        try:
            await self._app(scope, receive, request.send)
        except Exception:
            _log.exception("%s %s failed", request.method, request.route)
            if request.begun:
                raise
            await answer(problem(500, "the manager failed at this; its log says why"))(scope, receive, request.send)


class _Request:
    """One request while it is answered; ``seconds`` count until the answer begins, for streams do not end."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.id = _id(scope)
        self.begun, self.status, self.seconds = False, _LEFT, 0.0
        self._scope, self._send, self._start = scope, send, time.perf_counter()

    @property
    def method(self) -> str:
        method: str = self._scope["method"]
        return method if method in _METHODS else "other"

    @property
    def route(self) -> str:
        """As it is written in the document, so that there are only so many."""
        return getattr(self._scope.get("route"), "path", "") or "other"

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun, self.status, self.seconds = True, message["status"], time.perf_counter() - self._start
            message = {**message, "headers": [*message.get("headers", ()), (HEADER, self.id.encode())]}
        await self._send(message)

    def log(self) -> None:
        known = self.route != "other"
        fields = {
            "method": self.method, "route": self.route, "status": self.status, "seconds": round(self.seconds, 6),
            "path": self._scope["path"] if known else "",
        }  # fmt: skip
        text = "%s %s %d in %.1f ms"
        shown = fields["path"] if known else "(no such path)"
        _log.log(self._level(), text, self.method, shown, self.status, 1e3 * self.seconds, extra={"fields": fields})

    def _level(self) -> int:
        """Reading and what comes by the hundred is for whoever debugs."""
        if self.status >= 500:
            return logging.WARNING
        changes = self.method not in ("GET", "HEAD") and self.route not in _MANY
        return logging.INFO if changes or self.status >= 400 else logging.DEBUG


def _id(scope: Scope) -> str:
    """The client's own, if it is a decent one."""
    for name, value in scope["headers"]:
        if name == HEADER and _GIVEN.fullmatch(value):
            return str(value.decode())
    return uuid4().hex
