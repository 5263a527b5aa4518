"""Answers read by a client: typed values, errors as the same exceptions that the library raises, and event streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from littoral.errors import Infeasible, InputError, LittoralError
from littoral.manager.calls import Call
from littoral.manager.refusals import Conflict, NotAllowed, TooLarge, Unknown

T = TypeVar("T")
AGAIN = (429, 502, 503, 504)  # statuses that may be better next time
WAITS_S = (0.2, 0.5, 1.0, 2.0)  # before each further attempt
_KINDS: dict[int, type[InputError]] = {401: NotAllowed, 403: NotAllowed, 404: Unknown, 409: Conflict, 413: TooLarge}
_INFEASIBLE = "urn:littoral:infeasible"


def read_answer(call: Call[T], status: int, content: bytes) -> T:
    """The answer to a call, or the exception that it tells of."""
    if status >= 400:
        raise _error(status, content)
    if call.answer is None:
        return cast(T, None)
    if call.answer is str:
        return cast(T, content.decode())
    if call.answer is bytes:
        return cast(T, content)
    try:
        answer = msgspec.json.decode(content, type=call.answer)
    except msgspec.MsgspecError as error:
        raise LittoralError(f"the manager's answer is not understood: {error}; is it of another release?") from error
    return cast(T, answer if call.part is None else getattr(answer, call.part))


def _error(status: int, content: bytes) -> LittoralError:
    try:
        told: dict[str, Any] = json.loads(content)
        detail, remedy, kind = str(told["detail"]), str(told.get("remedy", "")), told.get("type")
    except (ValueError, KeyError, TypeError):
        return LittoralError(f"the manager answered {status}, which is not its own way; check the URL")
    if kind == _INFEASIBLE:
        return Infeasible(detail)
    if status >= 500:
        return LittoralError(detail)
    if status == 401:
        remedy = "give one with --token or LITTORAL_TOKEN"
    return _KINDS.get(status, InputError)(detail, remedy=remedy)


@dataclass
class StreamReader:
    """Server-sent events from lines; ``last`` is the id to resume after."""

    last: str | None = None
    _data: list[str] = field(default_factory=list)

    def feed(self, line: str) -> Iterator[dict[str, Any]]:
        """The data of an event, when a line completes one."""
        if line.startswith("data:"):
            self._data.append(line[5:].strip())
        elif line.startswith("id:"):
            self.last = line[3:].strip()
        elif not line and self._data:
            text, self._data = "\n".join(self._data), []
            yield json.loads(text)
