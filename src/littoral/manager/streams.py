"""What can be followed at a manager, as values: where it is told, what each event of it is, and which is the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from littoral.manager.answers import StreamReader
from littoral.manager.calls import Call
from littoral.manager.events import ManagerEvent
from littoral.manager.runs import ENDED, Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[T]):
    """Server-sent events, each a ``kind``, from now on or after the one numbered ``after``."""

    path: str
    kind: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None
    ends: Callable[[T], bool] = lambda _: False

    @property
    def call(self) -> Call[None]:
        """The request that opens it."""
        return Call(method="GET", path=self.path, params=self.params)

    def reader(self) -> StreamReader:
        """Of its lines."""
        return StreamReader(None if self.after is None else str(self.after))

    def read(self, reader: StreamReader, line: str) -> Iterator[T]:
        """The event that a line completes, if it completes one."""
        for data in reader.feed(line):
            yield msgspec.convert(data, self.kind)


def run_changes(number: int) -> Stream[Run]:
    """A run at each change, until it has ended."""
    return Stream(path=f"/runs/{number}/stream", kind=Run, ends=lambda run: run.state in ENDED)


def later_events(
    *, after: int | None = None, kind: str | None = None, subject: str | None = None
) -> Stream[ManagerEvent]:
    """What happens from now on, or after an event's number; goes on after a broken connection."""
    params = {name: value for name, value in (("kind", kind), ("subject", subject)) if value is not None}
    return Stream(path="/events/stream", kind=ManagerEvent, params=params, after=after)
