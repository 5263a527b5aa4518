"""Synchronous data-parallel SGD (BSP) with a ring all-reduce, as PyTorch DDP does it.

Gradients are weighted by each worker's samples, so that unequal batches give exactly the gradient of the
concatenated batch. A worker whose shard is exhausted takes part with weight zero until a round has no samples
at all: nobody hangs when step counts differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Models, Source
from littoral.worlds.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """Everyone computes, everyone gets the mean, everyone takes the same step."""

    name: ClassVar[str] = "allreduce"
    models: ClassVar[Models] = "alike"
    limit: ClassVar[float] = 0

    async def worker(self, node: Node) -> None:
        while True:
            gradient = await node.compute()
            mean = await node.all_reduce(gradient)
            if mean.samples == 0:
                return
            await node.update(mean.vector, mean.samples)

    async def server(self, node: Node) -> None:
        raise AssertionError("all-reduce has no servers")

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        return recipe

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        return [Source(node=members[0], start=0, stop=length)]
