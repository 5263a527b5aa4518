"""Data stores in virtual time: a worker's shard and the model come from one, once, and what has come stays.

A delivery goes on where it stopped when its store or its worker is back: both ends are gates on its way, and a closed
gate is a pipe of no capacity. Samples that move to another worker are fetched when it is about to use them, and it
waits for them; they come in whole blocks, of which only the expected number is known here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from littoral.continuum.routes import Pipe, Route
from littoral.continuum.signal import Constant
from littoral.events import Fetched
from littoral.learning.cutting import samples_per_block, share_touched
from littoral.worlds.simulated.kernel import Resume, park

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


@dataclass
class _Delivery:
    """What a worker has asked its store for, on its way or there."""

    store: str
    there: bool = False
    readers: list[Resume] = field(default_factory=list)  # programs that wait for it; a dead one is never woken


class Stores:
    """Every store of the continuum, and what it has sent."""

    def __init__(self, session: Session) -> None:
        self._session, self._kernel, self._network = session, session.kernel, session.post.network
        self._shards = {worker.name: worker.shard for worker in session.plan.workers}
        self._per_block = samples_per_block(session.footprint.sample_bytes)
        self._deliveries: dict[str, _Delivery] = {}  # the last one of each worker
        self._lacking: dict[tuple[str, str], float] = {}  # samples of a shard that a worker does not have, if not all
        self._away: set[str] = set()

    async def provide(self, worker: str) -> None:
        """Wait until a worker's shard and the model are there."""
        store = self._session.plan.worker(worker).store
        if store is None:
            return
        self._network.scale(_worker_gate(worker), 1.0)
        if worker not in self._deliveries:
            self._lacking[worker, worker] = 0.0
            footprint = self._session.footprint
            self._send(store, worker, self._shards[worker] * footprint.sample_bytes + footprint.vector_bytes)
        await self._arrival(worker)

    async def follow(self, worker: str, samples: int) -> None:
        """Wait until whatever a worker will use next is there, wherever it comes from."""
        store = self._session.plan.worker(worker).store
        assert store is not None
        await self._arrival(worker)
        while more := self._missing_samples(worker, samples):  # while it waits, its work may become another
            self._send(store, worker, more * self._session.footprint.sample_bytes)
            await self._arrival(worker)

    def has_supplied(self, worker: str) -> bool:
        """Whether a worker does not wait for data."""
        return self._session.plan.worker(worker).store is None or (
            worker in self._deliveries and self._deliveries[worker].there
        )

    def interrupt(self, worker: str) -> None:
        """A worker is gone: what is on its way waits for it."""
        self._network.scale(_worker_gate(worker), 0.0)

    def leave(self, store: str) -> None:
        """A store is gone."""
        self._away.add(store)
        self._network.scale(_store_gate(store), 0.0)

    def come_back(self, store: str) -> None:
        """It is there again, and sends what is missing."""
        self._away.discard(store)
        self._network.scale(_store_gate(store), 1.0)

    def missing(self) -> str:
        """A store that is gone, and without which some member cannot go on."""
        late = self._late() if self._away else []
        gone = [(store, worker) for store, worker in late if store in self._away]
        return f"{gone[0][0]} was lost and did not return, and {gone[0][1]} needs its data" if gone else ""

    def unreached(self) -> str:
        """A member that waits for data, from whatever store."""
        late = self._late()
        return f"the data of {late[0][0]} does not reach {late[0][1]}" if late else ""

    def _late(self) -> list[tuple[str, str]]:
        """Members who wait for data, each after its store."""
        last = {worker: self._deliveries[worker] for worker in self._session.members if worker in self._deliveries}
        return [(delivery.store, worker) for worker, delivery in last.items() if not delivery.there]

    def _missing_samples(self, worker: str, samples: int) -> int:
        """How many samples come with the blocks that the worker's next ones are in; they count as here from now on."""
        more = 0.0
        for span in self._session.books.ledger.upcoming(worker, samples):
            size, key = self._shards[span.origin], (worker, span.origin)
            lacking = self._lacking.get(key, float(size))
            new = lacking * share_touched(len(span), size, self._per_block)
            self._lacking[key] = lacking - new
            more += new
        return round(more)

    async def _arrival(self, worker: str) -> None:
        delivery = self._deliveries[worker]
        if not delivery.there:
            delivery.readers.append(self._kernel.current)
            await park()

    def _send(self, store: str, worker: str, size: int) -> None:
        route, start = self._route(store, worker), self._kernel.now
        delivery = self._deliveries[worker] = _Delivery(store)

        def arrive(_: None) -> None:
            self._session.emit(Fetched(self._kernel.now, worker, size, start))
            delivery.there = True
            for reader in delivery.readers:
                self._kernel.call_soon(reader)

        self._network.start(route, size, lambda: self._kernel.call_at(self._kernel.now + route.latency_s, arrive))

    def _route(self, store: str, worker: str) -> Route:
        route = self._session.routes.between(store, self._session.device_of[worker])
        gates = [Pipe(name, Constant(math.inf)) for name in (_store_gate(store), _worker_gate(worker))]
        return replace(route, pipes=(gates[0], *route.pipes, gates[1]))


def _store_gate(store: str) -> str:
    return f"store {store}"


def _worker_gate(worker: str) -> str:
    return f"data of {worker}"
