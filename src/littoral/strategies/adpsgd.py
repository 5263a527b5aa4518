"""Asynchronous decentralised SGD (Lian et al. 2018): no rounds; any two neighbours average their models now and then.

Workers are of two sides, and links only run between them. An active worker asks a partner for an average while it
computes; a passive one answers at any time, also while it computes, and never asks. So nobody who is asked waits for
anybody, and there is no deadlock. Both change by half of the difference, x += (theirs - what I sent them) / 2, which
keeps the sum of all models even if x has moved in between. Gradients may be stale: the model may have been averaged
since they were begun.

A worker without work left goes on averaging at the pace of its steps, or it would hold back the mean of all models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.planning.topology import Topology
from littoral.strategies.gossip import neighbourhood
from littoral.strategies.peers import Peers, displacement, rest
from littoral.strategies.strategy import check_choice, check_whole
from littoral.worlds.node import Message, Node

EVENLY = 0.1  # of partners chosen by speed: the share that is chosen evenly, so that no link is forgotten


class AveragingRequest(Message, frozen=True):
    """My model: average yours with it."""

    vector: Any


class AveragingReply(Message, frozen=True):
    """My model as it was before I averaged it with yours."""

    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AdPsgd(Peers):
    """Step at the own pace, average with one partner per step."""

    name: ClassVar[str] = "adpsgd"
    limit: ClassVar[float] = math.inf

    topology: str | None = None  # None: everyone of one side with everyone of the other
    sides: str = "even-odd"  # without a topology: every other worker is active, or the second half of them
    partner: str = "random"  # round-robin: one after the other; fast: over fast links more often
    lead: int = 0  # steps that an active worker may take before it waits for an answer

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("sides", self.sides, ("even-odd", "halves"))
        check_choice("partner", self.partner, ("random", "round-robin", "fast"))
        check_whole("lead", self.lead, most=64)

    @property
    def by_rate(self) -> bool:
        """Whether it matters how fast links are."""
        return self.partner == "fast"

    def check_topology(self, topology: Topology) -> None:
        """Refuse a topology in which active and passive workers cannot be told apart."""
        colours(topology)

    async def worker(self, node: Node) -> None:
        own = Own(node.model.snapshot())
        partners = self._partners(node)
        asking = self._chosen(node, partners) if partners else None
        if asking is None:
            node.spawn(_answer(node, own))
        asked: Asked | None = None
        while True:
            if asking and asked is None:
                asked = Asked(next(asking), own.x)
                await node.send(asked.partner, AveragingRequest(own.x))
            node.model.load(own.x)
            gradient = await node.compute()
            if gradient.lease is None:
                await rest(node)
            if asked and (reply := await self._reply(node, asked)):
                own.average(reply.vector, asked.sent)
                asked = None
            moved = await displacement(node, gradient, self.boost)
            own.x = own.x + moved  # not before: it may have been averaged meanwhile

    async def _reply(self, node: Node, asked: Asked) -> AveragingReply | None:
        asked.steps += 1
        if asked.steps > self.lead:
            received = [await node.receive(AveragingReply, sender=asked.partner)]
        else:
            received = await node.arrived(AveragingReply)
        return received[0].message if received else None

    def _partners(self, node: Node) -> tuple[str, ...]:
        """Whom a node asks for averages; a passive one nobody."""
        if node.plan.topology is not None:
            left = neighbourhood(node)
            try:
                return left.neighbours(node.name) if colours(left)[node.name] else ()
            except InputError:  # what joined the rest together is not of two sides: all of one with all of the other
                pass
        active = dict(zip(node.members, self._places(len(node.members)), strict=True))
        return tuple(peer for peer in node.members if not active[peer]) if active[node.name] else ()

    def _places(self, count: int) -> list[bool]:
        """Which members are active; the first is not, so that there are two sides if there are two members."""
        return [i % 2 == 1 if self.sides == "even-odd" else 2 * i >= count > 1 for i in range(count)]

    def _chosen(self, node: Node, partners: Sequence[str]) -> Iterator[str]:
        """One partner after the other."""
        if self.partner == "round-robin":
            start = node.members.index(node.name) % len(partners)  # or everybody would begin with the same
            yield from cycle((*partners[start:], *partners[:start]))
        dice = node.random("partners")
        chances = by_speed(node.plan.rates[node.name], partners) if self.by_rate else [1.0] * len(partners)
        while True:
            yield dice.choices(partners, chances)[0]


class Own:
    """A worker's model, which averages change while a gradient is computed on the node's copy of it."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def average(self, theirs: Any, sent: Any) -> None:
        """Come half way towards a partner's model, from where we were when it was told."""
        self.x = self.x + (theirs - sent) * 0.5


@dataclass(slots=True)
class Asked:
    """A request under way: whom, with what, and how many steps ago."""

    partner: str
    sent: Any
    steps: int = 0


async def _answer(node: Node, own: Own) -> None:
    """Average with whoever asks, one at a time."""
    while True:
        asked = await node.receive(AveragingRequest)
        before = own.x
        own.average(asked.message.vector, before)
        await node.send(asked.sender, AveragingReply(before))


def by_speed(rates: Mapping[str, float], partners: Sequence[str]) -> list[float]:
    """Chances in proportion to the bytes/s of the links, mixed with even ones."""
    total = sum(rates[partner] for partner in partners)
    return [(1 - EVENLY) * rates[partner] / total + EVENLY / len(partners) for partner in partners]


def colours(topology: Topology) -> dict[str, bool]:
    """Two sides such that every link runs between them, the first node's being False; or a refusal."""
    near: dict[str, list[str]] = {node: [] for node in topology.nodes}
    for a, b in sorted(topology.arcs()):
        near[a].append(b)
        near[b].append(a)
    found = {topology.nodes[0]: False}
    for node in (todo := [topology.nodes[0]]):
        for peer in near[node]:
            if peer not in found:
                found[peer] = not found[node]
                todo.append(peer)
            elif found[peer] == found[node]:
                raise InputError(
                    f"topology {topology.name!r} is not bipartite: {node!r} and {peer!r} average with each other and "
                    "are on the same side, so that each could wait for the other",
                    remedy="leave topology out, or take one whose cycles are even, such as a ring of an even number",
                    key="strategy",
                )
    return found
