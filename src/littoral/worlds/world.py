"""A world is where a plan runs. It turns commands into acts and acts into events; it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from littoral.commands import Command
from littoral.events import Event


class Session(Protocol):
    """One run in a world."""

    def events(self) -> Iterator[Event]:
        """What happens, in order of time; ends when the run has stopped."""
        ...

    def perform(self, command: Command) -> None:
        """Do what the supervisor asked, now."""
        ...

    def emit(self, event: Event) -> None:
        """Add an event of the caller's."""
        ...

    def resume(self) -> float:
        """Before ``events``: begin from the last checkpoint instead of from nothing; when that was."""
        ...
