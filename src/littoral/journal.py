"""The append-only record of a run: one JSON object per line, events and commands in the order they happened.

Reports, diagnosis, replay and recovery read nothing else. A line cut short by a crash is ignored when reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from littoral.commands import Command
from littoral.errors import InputError
from littoral.events import AnyEvent, Computed, Event, Resumed, Sent, Used

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(AnyEvent).decode
_DETAIL = (Computed, Sent, Used)


class Journal:
    """Writes a run's journal; ``detail=False`` leaves out the lines of single steps and messages."""

    def __init__(self, path: Path, *, append: bool = False, detail: bool = True) -> None:
        self._path, self._append, self._detail = path, append, detail
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Journal:
        if self._append:
            _cut_partial_line(self._path)
        self._file = self._path.open("ab" if self._append else "wb", buffering=1 << 16)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())  # before the result says that the run has ended
            self._file.close()

    def write(self, entry: Event | Command) -> None:
        """Append one line."""
        assert self._file is not None
        if self._detail or not isinstance(entry, _DETAIL):
            self._file.write(_encode(entry) + b"\n")

    def flush(self) -> None:
        """Hand what is written to the operating system."""
        if self._file is not None:
            self._file.flush()


def history(path: Path, until: float) -> list[Event]:
    """What counts of an interrupted run that goes on from a checkpoint taken at ``until``.

    A resumption sets the clock back (a rollback within a run does not): what came after its checkpoint is void.
    """
    events: list[Event] = []
    for event in read_journal(path):
        if isinstance(event, Resumed) and event.t == event.since:
            events = [earlier for earlier in events if earlier.t <= event.since]
        events.append(event)
    return [event for event in events if event.t <= until]


def _cut_partial_line(path: Path) -> None:
    """A crash may have left half a line, to which nothing must be appended."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)


def read_journal(path: Path) -> Iterator[Event]:
    """The events of a journal (commands are left out)."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return  # cut short by a crash
                if line.startswith(b'{"command"'):
                    continue
                try:
                    yield _decode(line)
                except msgspec.MsgspecError as error:
                    remedy = "the journal was changed or comes from another version"
                    raise InputError(f"not an event: {error}", file=path, line=number, remedy=remedy) from error
    except OSError as error:
        message = f"cannot read the journal: {error.strerror}"
        raise InputError(message, file=path, remedy="name a run's folder or its journal.jsonl") from error
