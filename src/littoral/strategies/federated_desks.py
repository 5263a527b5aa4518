"""The server's side of federated averaging: who trains, who waits for a model, and when reports become a step.

A desk decides and keeps the model; ``federated`` carries the messages. Whatever takes leases from a client takes all
that it holds, so the oldest lease of a report speaks for all of them: a report is used as a whole, or its samples are
leased again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from littoral.strategies.outer import Nesterov
from littoral.strategies.peers import BOOST
from littoral.worlds.node import Node

if TYPE_CHECKING:
    from littoral.strategies.federated import FedAsync, FedAvg, FedBuff, FedReport


class Desk(ABC):
    """What all of them have in common; ``version`` counts the steps."""

    def __init__(self, node: Node) -> None:
        self.node, self.version = node, 0
        self.training: dict[str, None] = dict.fromkeys(node.members)  # at first: on their way to us
        self.waiting: dict[str, None] = {}
        self.reports: list[tuple[str, FedReport]] = []

    # -- what clients do ----------------------------------------------------------------------------------------

    def wait(self, client: str) -> None:
        """It wants a model."""
        self.training.pop(client, None)
        self.waiting[client] = None

    async def report(self, client: str, report: FedReport) -> None:
        """It has trained, and wants a model again."""
        if client in self.training and self.accepts(report):
            self.reports.append((client, report))
        else:  # of one that was declared lost, or too stale
            await self.node.release(report.leases)
        self.wait(client)

    def forget(self, client: str) -> None:
        """It does not train any more; what it reported counts."""
        self.training.pop(client, None)
        self.waiting.pop(client, None)

    def lose(self, client: str) -> None:
        """It is gone, and its samples are others' work now."""
        self.forget(client)
        self.reports = [(name, report) for name, report in self.reports if name != client]

    # -- what follows from it -----------------------------------------------------------------------------------

    async def settle(self) -> tuple[list[str], float]:
        """Take a step if it is time to; who is to get the model now, and for how many samples its steps shall be."""
        if self.reports and self.due():
            await self._merge()
        chosen = self.chosen()
        samples = self.batch(chosen) if chosen else 0.0
        for client in chosen:
            del self.waiting[client]
            self.training[client] = None
        return chosen, samples

    async def _merge(self) -> None:
        reports, self.reports = [report for _, report in self.reports], []
        oldest = await self.node.commit([report.leases[0] for report in reports])
        good = [report for report, valid in zip(reports, oldest, strict=True) if valid]
        void = [report for report, valid in zip(reports, oldest, strict=True) if not valid]
        await self.node.commit([lease for report in good for lease in report.leases[1:]])
        if good:
            self.node.model.load(self.merged(good))
            self.version += 1
        await self.node.release([lease for report in void for lease in report.leases])

    def staleness(self, report: FedReport) -> int:
        """Steps since its model was handed out."""
        return self.version - report.version

    # -- what differs -------------------------------------------------------------------------------------------

    def accepts(self, report: FedReport) -> bool:
        """Whether to use a report at all."""
        return True

    def chosen(self) -> list[str]:
        """Who of those waiting may train: everybody."""
        return list(self.waiting)

    def batch(self, chosen: Sequence[str]) -> float:
        """For how many samples local steps are to be: as many mean batches as the root of the number of clients.

        The batches of all of them proved too much for stale reports (digits, 6 and 8 clients), one too little.
        """
        clients = [*self.training, *self.waiting]
        return self._batches(clients) / len(clients) * min(math.sqrt(len(clients)), BOOST)

    def _batches(self, clients: Sequence[str]) -> float:
        return float(sum(self.node.plan.worker(client).batch for client in clients))

    @abstractmethod
    def due(self) -> bool:
        """Whether it is time for a step by what was reported."""

    @abstractmethod
    def merged(self, reports: list[FedReport]) -> Any:
        """The model after it."""


class Rounds(Desk):
    """FedAvg: some train, all of them are waited for, their mean is the next model."""

    def __init__(self, strategy: FedAvg, node: Node) -> None:
        super().__init__(node)
        self._fraction, self._dice = strategy.fraction, node.random("clients")

    def due(self) -> bool:
        return not self.training

    def chosen(self) -> list[str]:
        if self.training or not self.waiting:
            return []
        count = max(1, round(self._fraction * len(self.waiting)))
        return sorted(self._dice.sample(sorted(self.waiting), count))

    def batch(self, chosen: Sequence[str]) -> float:
        """All that are averaged, up to ``BOOST`` of them: an epoch then gets as far as one of synchronous SGD."""
        return self._batches(chosen) / len(chosen) * min(float(len(chosen)), BOOST)

    def merged(self, reports: list[FedReport]) -> Any:
        ordered = sorted(reports, key=lambda report: report.leases[0].worker)  # sums must not depend on who was first
        return self.node.model.vector + self.node.model.mean([(each.vector, each.samples) for each in ordered])


class Mixture(Desk):
    """FedAsync: every report at once."""

    def __init__(self, strategy: FedAsync, node: Node) -> None:
        super().__init__(node)
        self._strategy = strategy

    def due(self) -> bool:
        return True

    def merged(self, reports: list[FedReport]) -> Any:
        (report,) = reports
        share = self._strategy.alpha * self._strategy.damp(self.staleness(report))
        return self.node.model.vector * (1.0 - share) + report.vector * share


class Buffer(Desk):
    """FedBuff: so many reports, then one step by their mean."""

    def __init__(self, strategy: FedBuff, node: Node) -> None:
        super().__init__(node)
        self._strategy = strategy
        self._outer = Nesterov(lr=strategy.server_lr, momentum=strategy.server_momentum, trained=node.model.trained)

    @property
    def room(self) -> int:
        """Reports of a step. Whoever is left must be able to give them; when nobody is, what is there counts."""
        return max(1, min(self._strategy.buffer, len(self.training) + len(self.waiting)))

    def accepts(self, report: FedReport) -> bool:
        return self.staleness(report) <= self._strategy.max_staleness

    def due(self) -> bool:
        return len(self.reports) >= self.room

    def batch(self, chosen: Sequence[str]) -> float:
        """The share of it that one step averages."""
        return super().batch(chosen) * self.room / (len(self.training) + len(self.waiting))

    def merged(self, reports: list[FedReport]) -> Any:
        slopes = [(each.vector * -self._strategy.damp(self.staleness(each)), each.samples) for each in reports]
        return self._outer.step(self.node.model.vector, self.node.model.mean(slopes))
