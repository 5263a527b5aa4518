"""Local SGD: everyone trains alone for a while, then all average their models.

Flat (Stich 2019): every ``period`` steps. Post-local (Lin et al. 2020): every step at first, then every ``period``.
Hierarchical: inside a site every ``site_period`` steps, between all sites every ``period``, so that exchanges are
frequent where links are fast and rare where they are slow. A period of one step is synchronous SGD (with plain SGD).

Models are averaged by their workers' batches. A worker without work left keeps meeting the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from littoral.errors import InputError
from littoral.strategies.groups import average
from littoral.strategies.peers import Peers, rest, sites, step
from littoral.strategies.strategy import check_number, check_whole
from littoral.worlds.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSgd(Peers):
    """``period`` steps alone, then everybody's mean."""

    name: ClassVar[str] = "local_sgd"

    period: int = 16  # steps between averages over all members
    site_period: int = 0  # steps between averages inside a site; 0: there are none
    post: float = 0.0  # share of the run that averages every step before periods begin

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_whole("period", self.period, least=1)
        check_whole("site_period", self.site_period)
        check_number("post", self.post, most=1.0)
        if self.site_period and self.period % self.site_period:
            raise InputError(
                f"site_period {self.site_period} does not divide period {self.period}",
                remedy="give a period that is a multiple of it",
            )

    async def worker(self, node: Node) -> None:
        weight = float(node.plan.worker(node.name).batch)
        near = sites(node)[node.plan.worker(node.name).site]
        begin = self.post * max(math.ceil(w.shard / w.batch) * node.plan.epochs for w in node.plan.workers)
        if node.generation > 1:
            await self._meet(node, node.members, weight)
        number = 0
        while True:
            number += 1
            if not await step(node, await node.compute(), weighed=True):
                await rest(node)
            if number <= begin or number % self.period == 0:
                await self._meet(node, node.members, weight)
            elif self.site_period and number % self.site_period == 0:
                await self._meet(node, near, weight)

    async def _meet(self, node: Node, group: tuple[str, ...], weight: float) -> None:
        node.model.load(await average(node, group, node.model.snapshot(), weight=weight))
