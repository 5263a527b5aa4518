"""Data stores in virtual time: a worker's shard and the model come from one, once, and what has come stays.

A delivery goes on where it stopped when its store or its worker is back: both ends are gates on its way, and a closed
gate is a pipe of no capacity. Samples that move to another worker follow in the background; nobody waits for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from littoral.continuum.routes import Pipe, Route
from littoral.continuum.signal import Constant
from littoral.events import Fetched
from littoral.worlds.simulated.kernel import Resume, park
from littoral.worlds.simulated.network import Flow

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


@dataclass
class _Delivery:
    """A worker's shard and the model, on their way or there."""

    store: str
    there: bool = False
    reader: Resume | None = None  # the program that waits for it; a dead one is never woken


class Stores:
    """Every store of the continuum, and what it has sent."""

    def __init__(self, session: Session) -> None:
        self._session, self._kernel, self._network = session, session.kernel, session.post.network
        self._first: dict[str, _Delivery] = {}
        self._more: dict[str, list[Flow]] = {}
        self._away: set[str] = set()

    async def provide(self, worker: str) -> None:
        """Wait until a worker's shard and the model are there."""
        store = self._session.plan.worker(worker).store
        if store is None:
            return
        self._network.scale(_worker_gate(worker), 1.0)
        delivery = self._first.get(worker) or self._send_first(worker, store)
        if not delivery.there:
            delivery.reader = self._kernel.current
            await park()

    def add(self, worker: str, samples: int) -> None:
        """Send more samples to a worker, which meanwhile goes on."""
        store = self._session.plan.worker(worker).store
        if store is not None and samples:
            self._network.scale(_worker_gate(worker), 1.0)
            flow = self._send(store, worker, samples * self._session.footprint.sample_bytes, _nothing)
            self._more.setdefault(worker, []).append(flow)

    def interrupt(self, worker: str) -> None:
        """A worker is gone: its shard waits for it, and what was sent in addition is of no use to it any more."""
        self._network.scale(_worker_gate(worker), 0.0)
        for flow in self._more.pop(worker, ()):
            self._network.stop(flow)

    def leave(self, store: str) -> None:
        """A store is gone."""
        self._away.add(store)
        self._network.scale(_store_gate(store), 0.0)

    def come_back(self, store: str) -> None:
        """It is there again, and sends what is missing."""
        self._away.discard(store)
        self._network.scale(_store_gate(store), 1.0)

    def missing(self) -> str:
        """A store that is gone, and without which some member cannot begin."""
        late = self._late() if self._away else []
        gone = [(store, worker) for store, worker in late if store in self._away]
        return f"{gone[0][0]} was lost and did not return, and {gone[0][1]} needs its data" if gone else ""

    def unreached(self) -> str:
        """A member that waits for data, from whatever store."""
        late = self._late()
        return f"the data of {late[0][0]} does not reach {late[0][1]}" if late else ""

    def _late(self) -> list[tuple[str, str]]:
        """Members whose shard is not there yet, each after its store."""
        first = {worker: self._first[worker] for worker in self._session.members if worker in self._first}
        return [(delivery.store, worker) for worker, delivery in first.items() if not delivery.there]

    def _send_first(self, worker: str, store: str) -> _Delivery:
        footprint, shard = self._session.footprint, self._session.plan.worker(worker).shard
        delivery = self._first[worker] = _Delivery(store)

        def arrived() -> None:
            delivery.there = True
            if delivery.reader is not None:
                self._kernel.call_soon(delivery.reader)

        self._send(store, worker, shard * footprint.sample_bytes + footprint.vector_bytes, arrived)
        return delivery

    def _send(self, store: str, worker: str, size: int, done: Callable[[], None]) -> Flow:
        route, start = self._route(store, worker), self._kernel.now

        def arrive(_: None) -> None:
            self._session.emit(Fetched(self._kernel.now, worker, size, start))
            done()

        return self._network.start(
            route, size, lambda: self._kernel.call_at(self._kernel.now + route.latency_s, arrive)
        )

    def _route(self, store: str, worker: str) -> Route:
        route = self._session.routes.between(store, self._session.device_of[worker])
        gates = [Pipe(name, Constant(math.inf)) for name in (_store_gate(store), _worker_gate(worker))]
        return replace(route, pipes=(gates[0], *route.pipes, gates[1]))


def _store_gate(store: str) -> str:
    return f"store {store}"


def _worker_gate(worker: str) -> str:
    return f"data of {worker}"


def _nothing() -> None:
    return None
