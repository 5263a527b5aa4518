"""The decision, as plain data: who works on how much with which batch, who serves, and what that should take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from littoral.planning.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A node that computes gradients.

    ``samples_per_s`` is its predicted own speed at this batch; ``reduces`` the weight by which it owns a part of the
    vector in an all-reduce.
    """

    name: str
    device: str
    shard: int
    batch: int
    samples_per_s: float
    store: str | None = None  # the device its data comes from; None: the data is already there
    reduces: float = 1.0
    site: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A node that keeps elements ``start`` to ``stop`` of the vector."""

    name: str
    device: str
    start: int
    stop: int
    site: str = ""  # the one whose workers it serves; empty: everybody's


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One line of an explanation: a part of the predicted time, where it comes from, and the formula."""

    name: str
    seconds: float
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the plan should take, for all epochs, with the terms that sum up to it."""

    time_s: float
    epoch_s: float
    bytes_sent: float
    wan_bytes: float
    cost_usd: float
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A strategy that was considered: what it should take, and ``efficiency``, what its samples should be worth."""

    strategy: str
    parameters: dict[str, Any] = field(default_factory=dict)
    planner: str = ""
    time_s: float | None = None  # None: it was refused
    wan_bytes: float = 0.0
    cost_usd: float = 0.0
    efficiency: float = 1.0
    refused: str = ""  # why


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who does what. ``strategy`` and ``parameters`` name the synchronisation algorithm and its settings."""

    planner: str
    strategy: str
    parameters: dict[str, Any] = field(default_factory=dict)
    workers: tuple[Worker, ...]
    servers: tuple[Server, ...] = ()
    epochs: int
    split: str = "iid"
    alpha: float = 0.5
    wire: str = "float32"  # how a strategy's vectors cross
    topology: Topology | None = None  # who talks to whom, where the strategy has no other rule
    rates: dict[str, dict[str, float]] = field(default_factory=dict)  # bytes/s from node to node, where it matters
    predicted: Prediction
    reasons: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()  # the best first, where the strategy was chosen

    @property
    def samples(self) -> int:
        """Samples of one epoch."""
        return sum(worker.shard for worker in self.workers)

    @property
    def device_of(self) -> dict[str, str]:
        """The device of every node."""
        workers = {worker.name: worker.device for worker in self.workers}
        return workers | {server.name: server.device for server in self.servers}

    @property
    def reducing(self) -> dict[str, float]:
        """The weight by which every worker owns a part of the vector in an all-reduce."""
        return {worker.name: worker.reduces for worker in self.workers}

    def worker(self, name: str) -> Worker:
        """The worker of that name."""
        return next(worker for worker in self.workers if worker.name == name)


def fairness(plan: Plan) -> float:
    """Jain's index of how long each worker is busy per epoch: 1 when all carry the same burden, 1/n when one does."""
    burdens = [worker.shard / worker.samples_per_s for worker in plan.workers]
    return sum(burdens) ** 2 / (len(burdens) * sum(burden**2 for burden in burdens))
