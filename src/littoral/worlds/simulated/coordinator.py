"""The coordinator as somebody who can be away: killed and started again, or frozen for a while.

While it is away nobody is told anything: no loss is noticed, no decision taken, no checkpoint saved. If it was
killed, everybody's program ended with it, and when it is back the run goes on from the last checkpoint. If it was only
frozen, nodes go on meanwhile with the leases and commits they need, and what happened is told when it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from littoral.events import DeadlineMissed, Event, FaultInjected

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


class Coordinator:
    """Whether it is there, and what waits for it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._absences = 0
        self._killed = False
        self._waiting: list[Callable[[], None]] = []

    @property
    def away(self) -> bool:
        """Whether nobody listens at present."""
        return self._absences > 0

    def leave(self, seconds: float, *, killed: bool) -> None:
        """Be away for so long (on top of any other reason)."""
        self._absences += 1
        if killed:
            self._killed = True
            self.forget()
            self._session.halt()
        self._session.later(seconds, self._come_back)

    def forget(self) -> None:
        """What it has not heard yet it will never tell."""
        self._session.forget_untold(_told_by_others)

    def when_there(self, act: Callable[[], None]) -> None:
        """Do something that needs the coordinator: now, or as soon as it is back."""
        if self.away:
            self._waiting.append(act)
        else:
            act()

    def _come_back(self) -> None:
        self._absences -= 1
        if self.away:
            return
        self._session.kernel.pause()  # there is news to tell
        if self._killed:
            self._killed = False
            self._session.membership.go_back()
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()


def _told_by_others(event: Event) -> bool:
    """Whoever injects faults and runs apps keeps a record of its own."""
    return isinstance(event, FaultInjected | DeadlineMissed)
