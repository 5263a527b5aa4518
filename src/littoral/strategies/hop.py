"""Hop (Luo, Lin, Zhuo and Qian, ASPLOS 2019): decentralised SGD in which a slow neighbour need not be waited for.

A round is D-PSGD's: send the model, compute while the neighbours' come in, mix, step. Updates wait in a queue by
iteration, tokens bound how many iterations apart neighbours may be; within that bound a worker may mix without its
last ``backups`` neighbours, with updates up to ``staleness`` iterations old, and skip iterations when it is behind.

Chosen where the paper's text leaves room, or this setting differs: mixing weights are the topology's (doubly
stochastic) instead of uniform ones; what a neighbour that was not heard would have weighed goes to the own model, which
biases the mean of all models less than renormalising; freshness multiplies these weights; a jump is never longer than
the known lag or ``max_ig``, and its tokens are given once the model is refreshed, so that nobody skips what somebody
waits for, whatever the (strongly connected) graph. The own model takes part in that refresh as if it were fresh, and
the optimiser forgets its momentum. Skipped iterations lease no samples: those are computed later, so skipping brings
the others' models forward, not the end of the slow worker's epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.planning.topology import Topology
from littoral.strategies.gossip import neighbourhood
from littoral.strategies.inbox import Inbox
from littoral.strategies.peers import Peers, rest, step
from littoral.strategies.strategy import check_choice, check_whole
from littoral.strategies.tokens import Tokens
from littoral.worlds.node import Gradient, Message, Node


class HopUpdate(Message, frozen=True):
    """The sender's model at an iteration."""

    round: int
    vector: Any


class HopToken(Message, frozen=True):
    """The sender went on by so many iterations (NOTIFY-ACK: it has mixed the receiver's update)."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(Peers):
    """D-PSGD over queues, with backup workers, bounded staleness and skipped iterations."""

    name: ClassVar[str] = "hop"

    topology: str = "ring-based"
    degree: int | None = None  # of random-regular and equistatic
    weights: str = "metropolis"
    order: str = "parallel"  # compute while updates come in; serial: compute, step, send, mix
    max_ig: int = 4  # iterations a worker may be ahead of those it sends to; 0: no tokens
    notify_ack: bool = False  # the older protocol, to compare: no update before the last one was mixed
    backups: int = 0  # neighbours that need not be waited for
    staleness: int = 0  # how many iterations old an update may be; 0: exactly this iteration's
    max_jump: int = 0  # iterations skipped at once; 0: none ever
    trigger: int = 2  # how far behind all receivers a worker must be to skip
    missing: str = "self"  # who gets the weight of those not heard; renormalise: everyone heard
    spare: bool = True  # do not send what the receiver's tokens say it no longer needs

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("order", self.order, ("parallel", "serial"))
        check_choice("missing", self.missing, ("self", "renormalise"))
        for name in ("max_ig", "backups", "staleness", "max_jump"):
            check_whole(name, getattr(self, name))
        check_whole("trigger", self.trigger, least=1)
        if self.degree is not None:
            check_whole("degree", self.degree, least=1)
        for name in ("notify_ack", "spare"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r}", remedy="give true or false")
        self._check_protocol()

    def _check_protocol(self) -> None:
        """Refuse combinations that nothing bounds, or that do nothing."""
        if self.notify_ack and (self.backups or self.staleness or self.max_jump):
            raise InputError(
                "notify_ack waits for everyone: no backups, staleness or max_jump", remedy="leave notify_ack out"
            )
        if self.backups and not self.max_ig:
            raise InputError("backups without tokens: workers may drift apart without bound",
                             remedy="give a max_ig of 1 or more, or 'backups: 0'")  # fmt: skip
        if not self.max_jump:
            return
        if not self.max_ig or not (self.backups or self.staleness):
            raise InputError("max_jump needs tokens, and backups or staleness: else others wait for what is skipped",
                             remedy="give backups or a staleness, and a max_ig of 1 or more")  # fmt: skip
        furthest = self.max_ig if self.backups else min(self.max_ig, self.staleness + 1)
        if self.trigger > furthest:
            raise InputError(f"nobody gets {self.trigger} iterations (trigger) ahead of a neighbour: it never skips",
                             remedy=f"give a trigger of {furthest} or less")  # fmt: skip

    def check_topology(self, topology: Topology) -> None:
        """Refuse a planned topology on which this cannot work."""
        if len(topology.rounds) > 1:
            raise InputError(f"topology {topology.name!r} changes from round to round, Hop's neighbours stay",
                             remedy="take ring-based, or another that does not change", key="strategy")  # fmt: skip
        for node, row in topology.rounds[0].items():
            near = len(topology.senders(node, 0))
            if self.backups > near:
                raise InputError(
                    f"{self.backups} backups, but {node} hears only {near} in topology {topology.name!r}",
                    remedy=f"give at most {near} backups, or a topology with more links", key="strategy",
                )  # fmt: skip
            if not row.get(node):
                raise InputError(f"topology {topology.name!r} lets {node} keep nothing of its own model",
                                 remedy="take another topology, or other weights", key="strategy")  # fmt: skip

    async def worker(self, node: Node) -> None:
        walker = Walker(self, node)
        while True:
            await walker.skip()
            if self.order == "serial":
                await step(node, await work(node), self.boost)
                await walker.send()
                await walker.reduce(walker.number)
            else:
                await walker.send()
                gradient = await work(node)
                await walker.reduce(walker.number)
                await step(node, gradient, self.boost)
            await walker.advance()


async def work(node: Node) -> Gradient:
    """The next gradient, or its time without one: neighbours still need my updates and tokens."""
    gradient = await node.compute()
    if gradient.lease is None:
        await rest(node)
    return gradient


class Walker:
    """A worker on its way: its iteration, its neighbours, their updates and tokens."""

    def __init__(self, hop: Hop, node: Node) -> None:
        graph = neighbourhood(node)
        self.hop, self.node, self.number = hop, node, 0
        self.row = graph.weights(node.name, 0)
        self.senders, self.receivers = graph.senders(node.name, 0), graph.receivers(node.name, 0)
        self.updates = Inbox(node, HopUpdate)
        counted = hop.max_ig > 0 or hop.notify_ack
        self.tokens = Tokens(
            node, HopToken, givers=self.receivers if counted else (), takers=self.senders if counted else (),
            start=0 if hop.notify_ack else hop.max_ig,
        )  # fmt: skip

    async def send(self) -> None:
        """My model to everyone who can still use it."""
        await self.tokens.look()
        update = HopUpdate(self.number, self.node.model.snapshot())
        for peer in self.receivers:
            if not self.hop.spare or self.tokens.lead(peer) <= self.hop.staleness:
                await self.node.send(peer, update)

    async def reduce(self, number: int) -> None:
        """Mix with the updates of an iteration, once enough of them are here."""
        model, me, quorum = self.node.model, self.node.name, len(self.senders) - self.hop.backups
        oldest = number - self.hop.staleness
        if self.hop.staleness:
            heard = await self.updates.newest(oldest, self.senders, quorum)
        else:
            heard = await self.updates.of_round(number, self.senders, quorum)
        rounds = {me: number} | {peer: update.round for peer, update in heard.items()}
        weights = shares(self.row, me, rounds, oldest, self.hop.missing)
        theirs = [(heard[peer].vector, weights[peer]) for peer in sorted(heard)]
        model.load(model.mean([(model.vector, weights[me]), *theirs]))
        if self.hop.notify_ack:
            await self.tokens.give()

    async def skip(self) -> None:
        """Jump to where the slowest of my receivers is, if that is far enough."""
        if not self.hop.max_jump:
            return
        await self.tokens.look()
        lag = min((self.tokens.lead(peer) for peer in self.receivers), default=0)
        if lag < self.hop.trigger:
            return
        jump = min(lag, self.hop.max_jump, self.hop.max_ig)
        await self.tokens.take(jump)
        self.number += jump
        await self.reduce(self.number - 1)  # nobody skips it, nor withholds it from me, before my tokens are out
        self.node.model.forget()
        await self.tokens.give(jump)

    async def advance(self) -> None:
        """On to the next iteration, when the tokens allow it."""
        await self.tokens.take()
        if not self.hop.notify_ack:
            await self.tokens.give()
        self.number += 1


def shares(row: Mapping[str, float], me: str, rounds: Mapping[str, int], oldest: int, missing: str) -> dict[str, float]:
    """By how much each model in hand counts: its weight in the topology times its freshness, not yet normalised.

    The ``oldest`` round that counts is of freshness 1, the next of 2, and so on.

    >>> shares({"a": 0.5, "b": 0.25, "c": 0.25}, "a", {"a": 7, "b": 6}, 6, "self")
    {'a': 1.5, 'b': 0.25}
    """
    kept = {peer: row[peer] for peer in rounds}
    if missing == "self":
        kept[me] += sum(weight for peer, weight in row.items() if peer not in rounds)
    return {peer: weight * (rounds[peer] - oldest + 1) for peer, weight in kept.items()}
