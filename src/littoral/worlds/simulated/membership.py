"""Who takes part in a simulated run, and how it changes: the commands about members, as ``commands`` words them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from littoral.events import Resumed
from littoral.worlds.node import Joined, Left, Received
from littoral.worlds.simulated.faults import RESTART_S

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


@dataclass(eq=False)
class _Launch:
    """Processes that are being started, and how they will share the work."""

    weights: dict[str, float]


class Membership:
    """Changes the members of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._launch: _Launch | None = None  # the restart that is under way

    def exclude(self, gone: str, heirs: dict[str, float]) -> None:
        """Go on without a worker."""
        session, ledger = self._session, self._session.books.ledger
        session.members = tuple(name for name in session.members if name != gone)
        ledger.release_all(gone)
        got = ledger.hand_over(gone, heirs)
        if session.strategy.models == "own":
            self._regroup()
            return
        session.ring.abort()
        for node in session.nodes.values():
            if node.alive and node.name != gone:
                node.lose(gone)
                node.deliver_soon(Received(gone, Left(gone)))
        for name in sorted(got):
            self._go_on(name)

    def admit(self, name: str, weights: dict[str, float]) -> None:
        """Let a worker in; while a restart is under way it only starts with the others."""
        session = self._session
        session.nodes[name].alive = True
        session.post.drop(name)  # what was sent to its former self never reaches the new one
        session.members = self._in_order({*session.members, name})
        if self._launch is not None:
            self._launch.weights = weights
            return
        if session.strategy.models != "served":
            self._copy_model(name)
        if session.strategy.models == "own":
            self._regroup(lambda: session.books.ledger.rebalance(weights))
            return
        session.ring.abort()
        got = session.books.ledger.rebalance(weights)
        for other in session.nodes.values():
            if other.alive and other.name != name:
                other.deliver_soon(Received(name, Joined(name)))
        if not session.nodes[name].running:
            session.start(name)
        for heir in sorted(got):
            if heir != name:
                self._go_on(heir)

    def _regroup(self, change: Callable[[], object] = lambda: None) -> None:
        """Everybody's program ends and begins again in the new group, each with the model it has."""
        session = self._session
        if session.halted:  # all will begin anyway when the coordinator is back, or the restart is over
            change()
            return
        session.halt()
        for name in session.members:
            session.books.ledger.release_all(name)
        change()
        session.start_all()

    def relaunch(self, server: str, weights: dict[str, float]) -> None:
        """A server is back, without its memory."""
        self._session.nodes[server].alive = True
        self.go_back(weights)

    def restart(self, weights: dict[str, float]) -> None:
        """Kill everyone; when new processes had the time to start, go back with whoever is there."""
        session = self._session
        session.halt()
        session.members = self._in_order(set(weights))
        for server in session.plan.servers:
            session.nodes[server.name].alive |= session.outages.is_there(server.name)
        launch = self._launch = _Launch(weights)

        def launched() -> None:
            if self._launch is launch:
                self.go_back(launch.weights)

        session.later(RESTART_S, lambda: session.coordinator.when_there(launched))

    def go_back(self, weights: dict[str, float] | None = None) -> None:
        """Everybody begins again from the last checkpoint; work is shared by the given weights, or as planned."""
        session, self._launch = self._session, None
        session.halt()
        if session.members or session.strategy.models == "served":  # else nobody is there to hold the model
            since = float(self.restore(weights)["t"])
            session.emit(Resumed(session.kernel.now, since, session.books.ledger.done))
        session.start_all()

    def restore(self, weights: dict[str, float] | None = None) -> dict[str, Any]:
        """Take the books back to the last checkpoint; who was no member then gets work too. What else it says."""
        members, books = self._session.members, self._session.books
        saved = books.restore()
        if members and set(saved["members"]) != set(members):
            shards = {worker.name: float(worker.shard) for worker in self._session.plan.workers}
            books.ledger.rebalance(weights or {name: shards[name] for name in members})
        return saved

    def _go_on(self, name: str) -> None:
        """A worker got more work: its program goes on if it had ended."""
        session = self._session
        if session.books.ledger.open(name) and not session.nodes[name].running:
            session.start(name)

    def _copy_model(self, name: str) -> None:
        """Give a worker that joins the model of another; if nobody has it any more, the checkpoint's."""
        session = self._session
        donor = next((m for m in session.members if m != name), None)
        if donor is not None:
            source: Any = session.nodes[donor].model
            target: Any = session.nodes[name].model
            target.restore(source.state())
        else:
            since = float(session.books.restore()["t"])
            session.emit(Resumed(session.kernel.now, since, session.books.ledger.done))

    def _in_order(self, names: set[str]) -> tuple[str, ...]:
        return tuple(worker.name for worker in self._session.plan.workers if worker.name in names)
