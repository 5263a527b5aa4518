"""The coordinator's books of a simulated run: who may use which samples, how good the model is, what to resume from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from littoral.events import Checkpointed, EpochFinished, Evaluated, OutOfMemory, Used
from littoral.learning.leases import Lease, Ledger
from littoral.strategies.strategy import Source

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


class Mathematics(Protocol):
    """Makes models for nodes, and judges the model; one implementation is real, one only keeps time."""

    length: int
    evaluates: bool

    def worker(self, name: str) -> Any: ...
    def server(self, start: int, stop: int) -> Any: ...
    def evaluate(self, parts: Sequence[tuple[Source, Any]]) -> tuple[float, float]: ...


class Keeper(Protocol):
    """Keeps checkpoints."""

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None: ...
    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None: ...


class Books:
    """Ledger, evaluations and checkpoints. Keeping them costs no virtual time."""

    def __init__(self, session: Session, mathematics: Mathematics, keeper: Keeper) -> None:
        self._session, self._mathematics, self._keeper = session, mathematics, keeper
        self._shards = {worker.name: worker.shard for worker in session.plan.workers}
        self.ledger = Ledger(self._shards, session.plan.epochs)
        self.last_use_s = 0.0
        self._evaluated_at = 0
        self._evaluate_every = max(1, round(session.job.evaluate_every * self.ledger.total))

    # -- samples ------------------------------------------------------------------------------------------------

    def lease(self, name: str, batch: int) -> Lease | None:
        """The next samples of a worker; a batch that does not fit is reported and cut to what does."""
        session = self._session
        limit = session.nodes[name].machine.device.largest_batch(session.footprint)
        if batch > limit:
            session.emit(OutOfMemory(session.kernel.now, name, batch, limit))
            batch = max(1, limit)
        return self.ledger.lease(name, batch)

    def commit(self, leases: Sequence[Lease]) -> list[bool]:
        """Mark samples as used, where that is still allowed."""
        valid = [self.ledger.is_valid(lease) for lease in leases]
        before = self.ledger.done
        for lease in leases:
            if self.ledger.holds(lease):
                self._use(lease)
        if self.ledger.done > before:
            self.last_use_s = self._session.kernel.now
            if self.ledger.done - self._evaluated_at >= self._evaluate_every or self.ledger.left == 0:
                self._evaluated_at = self.ledger.done
                # After the update that these samples are for, which happens within this instant.
                self._session.kernel.at_instant_end(self.evaluate)
        return valid

    def _use(self, lease: Lease) -> None:
        session = self._session
        rows = tuple((s.epoch, s.origin, s.start, s.stop) for s in lease.spans)
        session.emit(Used(session.kernel.now, lease.worker, lease.samples, rows))
        for epoch in self.ledger.finish(lease):
            session.emit(EpochFinished(session.kernel.now, epoch, self.ledger.left))

    def release(self, leases: Sequence[Lease]) -> None:
        """Samples that were not used after all."""
        for lease in leases:
            self.ledger.release(lease)

    # -- the model ----------------------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Judge the model as it is now."""
        if self._mathematics.evaluates:
            parts = [(source, self._session.nodes[source.node].model.vector) for source in self._sources()]
            accuracy, loss = self._mathematics.evaluate(parts)
            self._session.emit(Evaluated(self._session.kernel.now, self.ledger.done, accuracy, loss))

    def new_model(self, name: str) -> Any:
        """The model a node starts with."""
        server = next((server for server in self._session.plan.servers if server.name == name), None)
        if server is not None:
            return self._mathematics.server(server.start, server.stop)
        return self._mathematics.worker(name)

    def _sources(self) -> list[Source]:
        session = self._session
        return session.strategy.sources(session.plan, session.members, self._mathematics.length)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Make the present state resumable, if anybody is left who holds the model."""
        if self._session.strategy.models != "served" and not self._session.members:
            return
        now = self._session.kernel.now
        tensors: dict[str, Any] = {}
        for source in self._sources():
            model: Any = self._session.nodes[source.node].model
            tensors |= {f"{source.prefix}{name}": value for name, value in model.state().items()}
        metadata = {
            "t": now,
            "evaluated_at": self._evaluated_at,
            "members": list(self._session.members),
            "ledger": self.ledger.state(),
            "apps": self._session.apps.state(),
        }
        self._keeper.save(tensors, metadata)
        self._session.emit(Checkpointed(now, self.ledger.done))

    def restore(self) -> dict[str, Any]:
        """Go back to the last checkpoint, or to the beginning; what else it says."""
        saved = self._keeper.load()
        if saved is None:
            self.ledger = Ledger.restore(Ledger(self._shards, self._session.plan.epochs).state(), after=self.ledger)
            self._evaluated_at = 0
            for node in self._session.nodes.values():
                node.model = self.new_model(node.name)
            return {"t": 0.0, "members": list(self._shards)}
        tensors, metadata = saved
        self.ledger = Ledger.restore(metadata["ledger"], after=self.ledger)
        self._evaluated_at = metadata["evaluated_at"]
        for source in self._sources():
            self._restore_models(source, tensors)
        return metadata

    def _restore_models(self, source: Source, tensors: dict[str, Any]) -> None:
        state = source.state(tensors)
        holders = self._session.members if self._session.strategy.models == "alike" else (source.node,)
        for name in holders if state else ():
            model: Any = self._session.nodes[name].model
            model.restore(state)
