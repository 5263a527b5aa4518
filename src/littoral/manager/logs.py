"""Logs on stderr: plain text, or one JSON object per line. No token ever appears in them, whoever logs it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any

from littoral.document import suggest
from littoral.errors import InputError

STYLES = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of the request that is being answered
_SECRET = re.compile(r"lit_([0-9a-f]{12})_[A-Za-z0-9_-]+")
_OURS = ("littoral", "uvicorn.error")


class TextLines(logging.Formatter):
    """For people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        told, request = super().format(record), REQUEST.get()
        return without_secrets(f"{told} [{request}]" if request else told)


class JsonLines(logging.Formatter):
    """For machines. ``fields`` of a record, a mapping, become keys of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage(),
        }  # fmt: skip
        if REQUEST.get():
            line["request"] = REQUEST.get()
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, default=str))


def without_secrets(text: str) -> str:
    """What opens something is left out; which token it was stays.

    >>> without_secrets("Bearer lit_0123456789ab_" + "x" * 43)
    'Bearer lit_0123456789ab_...'
    """
    return _SECRET.sub(r"lit_\1_...", text)


def configure(style: str, level: str) -> Callable[[str], None]:
    """Send all logs to stderr; gives what tells the operator something, whatever the level."""
    for word, known in ((style, STYLES), (level, LEVELS)):
        if word not in known:
            raise InputError(f"unknown way to log: {word!r}", remedy=suggest(word, list(known)))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())
    return _say if style == "text" else partial(_handled, handler)


def _handled(handler: logging.Handler, text: str) -> None:
    handler.handle(logging.LogRecord("littoral.manager", logging.INFO, "", 0, text, None, None))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
