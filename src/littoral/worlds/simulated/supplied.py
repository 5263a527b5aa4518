"""Nodes whose samples come from a store."""

from __future__ import annotations

from littoral.worlds.node import Gradient
from littoral.worlds.simulated.node import HandlingNode, SimulatedNode


class SuppliedNode(SimulatedNode):
    """A worker that waits for the samples of its next batch, should they have been another worker's."""

    async def compute(self) -> Gradient:
        await self._session.stores.follow(self.name, self.batch)
        return await super().compute()


class SuppliedHandlingNode(SuppliedNode, HandlingNode):
    """Such a worker, which also pays for its messages."""


def node_kind(*, supplied: bool, handling: bool) -> type[SimulatedNode]:
    """The kind of node that does what its worker or server has to, and no more."""
    if supplied:
        return SuppliedHandlingNode if handling else SuppliedNode
    return HandlingNode if handling else SimulatedNode
