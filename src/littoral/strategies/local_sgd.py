"""Local SGD: everyone trains alone for a while, then all average their models.

Flat (Stich 2019): every ``period`` steps. Post-local (Lin et al. 2020): every step at first, then every ``period``.
Hierarchical: inside a site every ``site_period`` steps, between all sites every ``period``, so that exchanges are
frequent where links are fast and rare where they are slow. A period of one step is synchronous SGD (with plain SGD).
SlowMo (Wang et al. 2020): the way from mean to mean is taken as a gradient, and followed with momentum.

Unequal batches: what a worker's samples move the mean by is its step times its weight in the mean, and that is the
same as in synchronous SGD. The step may be long and the weight small or the other way round. Equal steps let small
batches jump about between meetings, equal weights let large ones; so both go with the square root of the batch.

A worker without work left keeps meeting the others. Optimisers' memories stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.strategies.groups import average
from littoral.strategies.peers import Peers, others, rest, sites, step, weight
from littoral.strategies.strategy import check_number, check_whole
from littoral.worlds.node import Gradient, Message, Node


class LocalSgdMean(Message, frozen=True):
    """Everybody's mean, from the head of a site to the others."""

    vector: Any


class LocalSgdProgress(Message, frozen=True):
    """Steps behind us when a group begins again, as its first member sees it."""

    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSgd(Peers):
    """``period`` steps alone, then everybody's mean."""

    name: ClassVar[str] = "local_sgd"

    period: int = 16  # steps between averages over all members
    site_period: int = 0  # steps between averages inside a site; 0: there are none
    post: float = 0.0  # share of the run that averages every step before periods begin
    slow_momentum: float = 0.0  # of the way from mean to mean; 0.5 is SlowMo's
    slow_rate: float = 1.0  # how far to follow it

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_whole("period", self.period, least=1)
        check_whole("site_period", self.site_period)
        check_number("post", self.post, most=1.0)
        check_number("slow_momentum", self.slow_momentum, most=0.99)
        check_number("slow_rate", self.slow_rate, least=0.01)
        if self.site_period and self.period % self.site_period:
            raise InputError(
                f"site_period {self.site_period} does not divide period {self.period}",
                remedy="give a period that is a multiple of it",
            )

    async def worker(self, node: Node) -> None:
        weights = {member: weight(node.plan.worker(member).batch) for member in node.members}
        near = sites(node)[node.plan.worker(node.name).site]
        alone_from = self.post * _steps(node)
        before = 0  # steps of those who began before us
        if node.generation > 1:
            node.model.load(await self._mean(node, 0, weights))
        slow = _SlowMotion(self.slow_momentum, self.slow_rate, node.model.snapshot())
        number = 0
        while True:
            number += 1
            gradient = await node.compute()
            if number == 1 and node.generation > 1 and self.post:
                before = await _progress(node, gradient)
            if not await step(node, gradient, self.boost, weighed=True):
                await rest(node)
            if before + number <= alone_from:
                node.model.load(slow.restart(await self._mean(node, number, weights)))
            elif number % self.period == 0:
                node.model.load(slow.follow(await self._mean(node, number, weights)))
            elif self.site_period and number % self.site_period == 0:
                own = node.model.snapshot()
                node.model.load(await average(node, near, own, number=number, weight=weights[node.name]))

    async def _mean(self, node: Node, number: int, weights: dict[str, float]) -> Any:
        """Of all members' models. Hierarchical: of each site, then of their heads, who tell the others."""
        own, weight = node.model.snapshot(), weights[node.name]
        if not self.site_period:
            return await average(node, node.members, own, number=number, weight=weight)
        teams = sites(node)
        near = teams[node.plan.worker(node.name).site]
        mean = await average(node, near, own, number=number, weight=weight)
        if node.name != near[0]:
            return (await node.receive(LocalSgdMean, sender=near[0])).message.vector
        heads, total = [team[0] for team in teams.values()], sum(weights[member] for member in near)
        mean = await average(node, heads, mean, number=number, weight=total)
        for member in near[1:]:
            await node.send(member, LocalSgdMean(mean))
        return mean


class _SlowMotion:
    """SlowMo: u <- momentum * u + (last - mean); last <- last - rate * u. Without momentum and at rate 1, the mean."""

    def __init__(self, momentum: float, rate: float, start: Any) -> None:
        self._momentum, self._rate, self._last = momentum, rate, start
        self._way: Any = 0.0

    def follow(self, mean: Any) -> Any:
        """Where the mean, and the ways before, lead to."""
        if self._momentum or self._rate != 1.0:
            self._way = self._way * self._momentum + (self._last - mean)
            mean = self._last - self._way * self._rate
        return self.restart(mean)

    def restart(self, mean: Any) -> Any:
        """Go on from here."""
        self._last = mean
        return mean


async def _progress(node: Node, gradient: Gradient) -> int:
    """How many steps the run has behind it, as the first member's next samples tell."""
    first = node.members[0]
    if node.name != first:
        message: LocalSgdProgress = (await node.receive(LocalSgdProgress, sender=first)).message
        return message.steps
    share = 1.0
    if gradient.lease is not None:
        span = gradient.lease.spans[0]
        share = (span.epoch + span.start / node.plan.worker(span.origin).shard) / node.plan.epochs
    steps = round(share * _steps(node))
    for member in others(node):
        await node.send(member, LocalSgdProgress(steps))
    return steps


def _steps(node: Node) -> int:
    """Of the worker that makes most."""
    return max(math.ceil(worker.shard / worker.batch) * node.plan.epochs for worker in node.plan.workers)
