"""Who is out at present, and why: processes that died, nodes that do not answer, stores that are gone.

Each fault that keeps somebody out is a hold of its own; whoever has none left comes back. A node's absence is found
out by its silence, which takes ``DETECTION_S``; a shorter one goes unnoticed, unless its process died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from littoral.events import NodeLost, NodeReturned

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session

DETECTION_S = 1.5  # three heartbeats of half a second

CRASHED, LEFT = "crashed", "left"


@dataclass(frozen=True, eq=False)
class _Hold:
    """One fault that keeps somebody out; each is its own."""

    reason: str


class Outages:
    """Takes nodes and stores out and brings them back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._holds: dict[str, list[_Hold]] = defaultdict(list)  # what keeps a node or store out at present

    def crash(self, target: str, seconds: float) -> None:
        """Processes die; nobody knows yet."""
        names = self.nodes_of(target)
        for name in names:
            self._kill(name)
        self.hold(names, seconds, CRASHED)
        self.hold_stores(self.stores_of(target), seconds, CRASHED)

    def leave(self, target: str, seconds: float) -> None:
        """Nodes say good-bye: nobody has to find out."""
        names = self.nodes_of(target)
        self.hold(names, seconds, LEFT)
        self.hold_stores(self.stores_of(target), seconds, LEFT)
        for name in names:
            self._kill(name)
            self._when_heard(partial(self._report, name, LEFT))

    def restart(self, target: str) -> None:
        """Whoever crashed or left is back, whatever was said about how long."""
        for name in [*self.nodes_of(target), *self.stores_of(target)]:
            for hold in [hold for hold in self._holds[name] if hold.reason in (CRASHED, LEFT)]:
                self._release(name, hold)

    def hold(self, names: list[str], seconds: float, reason: str) -> None:
        """Nodes are out for a while."""
        hold = _Hold(reason)
        for name in names:
            self._holds[name].append(hold)
            self._session.later(DETECTION_S, partial(self._notice, name, hold))
            self._session.later(seconds, partial(self._release, name, hold))

    def hold_stores(self, names: list[str], seconds: float, reason: str) -> None:
        """Stores are out for a while; whoever reads them waits."""
        hold = _Hold(reason)
        for name in names:
            self._holds[name].append(hold)
            self._session.stores.leave(name)
            self._session.later(seconds, partial(self._release, name, hold))

    def is_there(self, name: str) -> bool:
        """Whether nothing keeps a node or store out."""
        return not self._holds[name]

    def nodes_of(self, target: str) -> list[str]:
        """A node of that name, or all nodes on the device of that name."""
        device_of = self._session.device_of
        return [target] if target in device_of else [node for node, device in device_of.items() if device == target]

    def stores_of(self, target: str) -> list[str]:
        """A store of that name, or all stores on the device of that name."""
        return [store.name for store in self._session.job.continuum.stores if target in (store.name, store.device)]

    # -- going --------------------------------------------------------------------------------------------------

    def _kill(self, name: str) -> None:
        node = self._session.nodes[name]
        if node.alive:
            node.alive = False
            node.noticed = False
            node.kill()
            self._session.ring.leave(name)
            self._session.withdraw(name)

    def _notice(self, name: str, hold: _Hold) -> None:
        if self._session.coordinator.away:  # once it is back, it must hear nothing for as long itself
            self._when_heard(partial(self._session.later, DETECTION_S, partial(self._notice, name, hold)))
        elif hold in self._holds[name]:
            self._kill(name)  # fenced: whoever is taken for dead must not go on
            self._report(name, hold.reason)

    def _report(self, name: str, reason: str) -> None:
        node = self._session.nodes[name]
        if not node.alive and not node.noticed:
            node.noticed = True
            self._session.emit(NodeLost(self._session.kernel.now, name, reason))

    # -- coming back --------------------------------------------------------------------------------------------

    def _release(self, name: str, hold: _Hold) -> None:
        if hold not in self._holds[name]:
            return
        self._holds[name].remove(hold)
        if name in self._session.nodes:
            self._when_heard(partial(self._ask_to_join, name, hold.reason))
        elif not self._holds[name]:
            self._session.stores.come_back(name)

    def _ask_to_join(self, name: str, reason: str) -> None:
        """A node that nothing keeps out any more wants to be a member again, if it had died or been fenced."""
        if not self._holds[name] and not self._session.nodes[name].alive:
            self._report(name, reason)
            self._session.emit(NodeReturned(self._session.kernel.now, name))

    def _when_heard(self, act: Callable[[], None]) -> None:
        self._session.coordinator.when_there(act)
