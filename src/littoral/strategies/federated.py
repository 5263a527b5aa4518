"""Federated averaging: clients train from the server's model for a while and report what came of it.

FedAvg (McMahan et al. 2017) works in rounds: some clients are chosen, and the server waits for all of them. FedAsync
(Xie et al. 2019) mixes every report into the model as it comes, the less the staler it is. FedBuff (Nguyen et al. 2022)
collects a buffer of reports and then takes one step by their mean. ``version`` counts the server's steps: a report is
as stale as there were steps between the model it began with and its arrival.

Clients keep their optimiser from report to report. The server commits a report's samples just before it uses them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.learning.leases import Lease
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.strategies.federated_desks import Buffer, Desk, Mixture, Rounds
from littoral.strategies.strategy import Models, Source, check_choice, check_number, check_whole
from littoral.worlds.node import Joined, Left, Message, Node

WILD = 8.0  # times its own batch that a client may step for: beyond, models of small batches go astray


class FedPull(Message, frozen=True):
    """I am new here: send me the model when I may train."""


class FedReport(Message, frozen=True):
    """What I made of the model of ``version``: mine now, or how far it moved."""

    version: int
    samples: int
    leases: tuple[Lease, ...]
    vector: Any


class FedFinish(Message, frozen=True):
    """I have no work left; do not wait for me."""


class FedModel(Message, frozen=True):
    """The server's model after ``version`` steps; let each of yours be as long as one for ``batch`` samples."""

    version: int
    batch: float
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated(ABC):
    """What they have in common: the client's story, and a server that does what its desk says."""

    name: ClassVar[str]
    models: ClassVar[Models] = "served"
    limit: ClassVar[float] = math.inf
    servers: ClassVar[int] = 1

    local_steps: int = 8  # between two reports
    local_epochs: float = 0.0  # passes over the own samples between two reports; 0: as many as local_steps make
    rho: float = 0.0  # how strongly local steps are drawn back to the model they began with (proximal term)

    def __post_init__(self) -> None:
        check_whole("local_steps", self.local_steps, least=1)
        check_number("local_epochs", self.local_epochs)
        check_number("rho", self.rho)

    async def worker(self, node: Node) -> None:
        server = node.plan.servers[0].name
        await node.send(server, FedPull())
        while True:
            given = (await node.receive(FedModel, sender=server)).message
            node.model.load(given.vector)
            leases = await self._train(node, given)
            if not leases:
                break
            samples = sum(lease.samples for lease in leases)
            await node.send(server, FedReport(given.version, samples, leases, self.outcome(node, given.vector)))
        await node.send(server, FedFinish())

    async def _train(self, node: Node, given: FedModel) -> tuple[Lease, ...]:
        """Some steps from the given model; the samples they took."""
        planned, leases = node.plan.worker(node.name), []
        for _ in range(self.steps(planned.shard, planned.batch)):
            gradient = await node.compute()
            if gradient.lease is None:
                break
            slope = gradient.vector
            if self.rho:
                slope = slope + (node.model.vector - given.vector) * self.rho
            length = min(given.batch, WILD * planned.batch)
            await node.update(slope, length, gradient.samples / planned.batch)
            leases.append(gradient.lease)
        return tuple(leases)

    def steps(self, shard: int, batch: int) -> int:
        """Of a client, between two reports."""
        return math.ceil(self.local_epochs * shard / batch) or self.local_steps

    def outcome(self, node: Node, given: Any) -> Any:
        """What a client reports: how far its steps moved it."""
        return node.model.vector - given

    @abstractmethod
    def desk(self, node: Node) -> Desk:
        """How the server goes about it."""

    async def server(self, node: Node) -> None:
        desk = self.desk(node)
        while True:
            received = await node.receive(FedPull, FedReport, FedFinish, Left, Joined)
            match received.message:
                case FedPull():
                    desk.wait(received.sender)
                case FedReport() as report:
                    await desk.report(received.sender, report)
                case FedFinish():
                    desk.forget(received.sender)
                case Left(node=gone):
                    desk.lose(gone)
            chosen, batch = await desk.settle()
            for client in chosen:
                await node.send(client, FedModel(desk.version, batch, node.model.snapshot()))

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device."""
        return recipe

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """The server."""
        return [Source(node=server.name, start=server.start, stop=server.stop) for server in plan.servers]


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAvg(Federated):
    """Rounds: ``fraction`` of the clients train, the next model is the mean of theirs, weighted by samples."""

    name: ClassVar[str] = "fedavg"
    limit: ClassVar[float] = 0

    fraction: float = 1.0  # of the clients with work left, chosen at random, at least one

    def __post_init__(self) -> None:
        Federated.__post_init__(self)
        check_number("fraction", self.fraction, least=1e-9, most=1.0)

    def desk(self, node: Node) -> Desk:
        """Rounds."""
        return Rounds(self, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAsync(Federated):
    """x = (1 - a) x + a x_i for every report x_i, with a = alpha * s(staleness)."""

    name: ClassVar[str] = "fedasync"

    alpha: float = 0.6
    rho: float = 0.005
    damping: str = "poly"  # s(t): constant; poly, (1 + t)**-power; hinge, 1/(slope * (t - grace) + 1) beyond grace
    power: float = 0.5
    slope: float = 10.0
    grace: int = 4  # staleness that costs nothing

    def __post_init__(self) -> None:
        Federated.__post_init__(self)
        check_choice("damping", self.damping, ("constant", "poly", "hinge"))
        check_number("alpha", self.alpha, least=1e-6, most=1.0)
        check_number("power", self.power)
        check_number("slope", self.slope)
        check_whole("grace", self.grace)

    def damp(self, staleness: int) -> float:
        """s: 1 for a fresh report, and never more for a staler one."""
        if self.damping == "poly":
            return float((1 + staleness) ** -self.power)
        beyond = max(0, staleness - self.grace) if self.damping == "hinge" else 0
        return 1.0 / (self.slope * beyond + 1.0)

    def outcome(self, node: Node, given: Any) -> Any:
        """The client's model: the one it began with is gone from the server."""
        return node.model.snapshot()

    def desk(self, node: Node) -> Desk:
        """One report after another."""
        return Mixture(self, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedBuff(Federated):
    """Every ``buffer`` reports, one server step by their mean, each damped by its staleness."""

    name: ClassVar[str] = "fedbuff"

    buffer: int = 10  # reports of a step; never more than there are clients at work
    max_staleness: int = 20  # staler reports are not used; their samples are leased again
    server_lr: float = 1.0
    server_momentum: float = 0.0

    def __post_init__(self) -> None:
        Federated.__post_init__(self)
        check_whole("buffer", self.buffer, least=1)
        check_whole("max_staleness", self.max_staleness)
        check_number("server_lr", self.server_lr, least=1e-6)
        check_number("server_momentum", self.server_momentum, most=0.999)

    def damp(self, staleness: int) -> float:
        """s: 1 for a fresh report, and less for a staler one."""
        return 1.0 / math.sqrt(1 + staleness)

    def desk(self, node: Node) -> Desk:
        """A buffer."""
        return Buffer(self, node)
