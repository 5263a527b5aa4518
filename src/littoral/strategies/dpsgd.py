"""Decentralised SGD (Lian et al. 2017): in every round each worker mixes its model with its neighbours'.

The gradient is taken at the model before mixing, so computing and exchanging overlap; with ``adapt: before`` the
worker steps first and its neighbours mix what came of it (adapt-then-combine), which overlaps nothing. Weights are
doubly stochastic: the mean of all models moves as in synchronous SGD, and how close they stay depends on the
topology's spectral gap.

With a codec only differences to public copies cross (CHOCO-SGD, Koloskova et al. 2019). Where links have different
codecs, or are not used in the same rounds, one copy cannot serve them all: there is one per kind of link. What a link
carries, a share of the sender's copy, is added at one end and taken off at the other, so that the mean stays whatever
the copies are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from littoral.errors import InputError
from littoral.learning.codecs import Choco, choose_codec, default_gamma, make_codec
from littoral.learning.phantom import Phantom
from littoral.planning.topology import WEIGHTS, Topology, repaired
from littoral.strategies.inbox import Inbox
from littoral.strategies.peers import Peers, rest, step
from littoral.strategies.strategy import check_choice, check_number, check_whole
from littoral.worlds.node import Message, Node

ONE_WAY = ("exponential", "one-peer-exponential", "equistatic")  # topologies whose links carry models one way


class GossipModel(Message, frozen=True):
    """The sender's model in a round; with a codec, the coded change of its public copy (round -1: its model)."""

    round: int
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Dpsgd(Peers):
    """Mix with the neighbours, step by the own gradient, again."""

    name: ClassVar[str] = "dpsgd"

    topology: str = "ring"
    degree: int | None = None  # of random-regular, base-k and equistatic
    weights: str = "metropolis"
    adapt: str = "after"  # step after mixing, or before
    codec: str = "none"  # of what crosses; auto: per link, as mild as its rate allows
    gamma: float | None = None  # with a codec: how far to move towards the neighbours' copies; None: as it deserves

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("weights", self.weights, WEIGHTS)
        check_choice("adapt", self.adapt, ("after", "before"))
        if self.degree is not None:
            check_whole("degree", self.degree, least=1)
        if self.codec not in ("none", "auto"):
            Choco(make_codec(self.codec), Phantom(1), ())  # which refuses what gossip cannot use
        if self.codec == "auto" and self.topology in ONE_WAY:
            raise InputError(
                f"codec auto on {self.topology}: what a link's copies lag behind must return on the same link",
                remedy="name one codec for all links, or take a topology such as ring, base-k or fast-links",
            )
        if self.gamma is not None:
            check_number("gamma", self.gamma, least=0.001, most=1.0)
            if self.codec == "none":
                raise InputError("gamma without a codec", remedy="name a codec, or leave gamma out")

    @property
    def by_rate(self) -> bool:
        """Whether links differ in what they carry."""
        return self.codec == "auto"

    async def worker(self, node: Node) -> None:
        exchange: Exchange = Whole(node) if self.codec == "none" else Coded(self, node)
        await exchange.begin()
        number = 0
        while True:
            if self.adapt == "after":
                await exchange.offer(number)
            gradient = await node.compute()
            if gradient.lease is None:
                await rest(node)
            if self.adapt == "before":
                await step(node, gradient, self.boost)
                await exchange.offer(number)
            node.model.load(await exchange.mixed(number))
            if self.adapt == "after":
                await step(node, gradient, self.boost)
            number += 1


def neighbourhood(node: Node) -> Topology:
    """The plan's topology among the present members: the same on every one of them."""
    topology = node.plan.topology
    assert topology is not None, "the plan has no topology"
    return topology if set(topology.nodes) == set(node.members) else repaired(topology, node.members)


@dataclass(frozen=True, slots=True)
class Row:
    """A node's part in one round: the weight of its own model, those it gives to others' and they to its."""

    own: float
    takes: dict[str, float]
    gives: dict[str, float]


def rows(topology: Topology, node: str) -> list[Row]:
    """A node's part in every round of the period."""
    return [_row(weights, node) for weights in topology.rounds]


def _row(weights: dict[str, dict[str, float]], node: str) -> Row:
    takes = {peer: weights[node][peer] for peer in sorted(weights[node]) if peer != node and weights[node][peer]}
    gives = {peer: weights[peer][node] for peer in sorted(weights) if peer != node and weights[peer].get(node)}
    return Row(weights[node].get(node, 0.0), takes, gives)


class Exchange(Protocol):
    """How models cross in a round."""

    async def begin(self) -> None:
        """Find common ground, where it needs some."""
        ...

    async def offer(self, number: int) -> None:
        """Send the own model to whom it concerns in a round."""
        ...

    async def mixed(self, number: int) -> Any:
        """The own model mixed with the neighbours', when they are here."""
        ...


class Whole:
    """Models cross as they are."""

    def __init__(self, node: Node) -> None:
        self._node, self._inbox = node, Inbox(node, GossipModel)
        self._rows = rows(neighbourhood(node), node.name)

    async def begin(self) -> None:
        """Any models will do."""

    async def offer(self, number: int) -> None:
        for peer in self._rows[number % len(self._rows)].gives:
            await self._node.send(peer, GossipModel(number, self._node.model.snapshot()))

    async def mixed(self, number: int) -> Any:
        row, model = self._rows[number % len(self._rows)], self._node.model
        heard = await self._inbox.of_round(number, row.takes)
        return model.mean([(model.vector, row.own), *((heard[peer].vector, row.takes[peer]) for peer in row.takes)])


class Coded:
    """What changed in public copies crosses, coded.

    Links of one codec that are used in the same rounds share a public copy of this node (``Choco``): their other ends
    see the same differences. On a topology that does not vary, that is one copy per codec.
    """

    def __init__(self, strategy: Dpsgd, node: Node) -> None:
        self._node, self._inbox = node, Inbox(node, GossipModel)
        topology = neighbourhood(node)
        self._rows = rows(topology, node.name)
        gives = {peer: tuple(i for i, row in enumerate(self._rows) if peer in row.gives) for peer in self._peers()}
        links = {peer: (codec_of_link(strategy, node, topology, peer), rounds) for peer, rounds in gives.items()}
        initial = node.model.snapshot()
        copies = {
            link: Choco(make_codec(link[0]), initial, [peer for peer in links if links[peer] == link])
            for link in dict.fromkeys(links.values())
        }
        self._choco = {peer: copies[link] for peer, link in links.items()}
        self._gamma = {
            peer: default_gamma(choco.codec) if strategy.gamma is None else strategy.gamma
            for peer, choco in self._choco.items()
        }

    async def begin(self) -> None:
        """Both ends of a link must begin with the same copies: in a group that has changed models differ."""
        if self._node.generation == 1:
            return
        for peer in {peer: None for row in self._rows for peer in row.gives}:
            await self._node.send(peer, GossipModel(-1, self._node.model.snapshot()))
        senders = {peer: None for row in self._rows for peer in row.takes}
        for peer, model in (await self._inbox.of_round(-1, senders)).items():
            self._choco[peer].adopt(peer, model.vector)

    async def offer(self, number: int) -> None:
        payloads: dict[int, Any] = {}
        for peer in self._rows[number % len(self._rows)].gives:
            choco = self._choco[peer]
            if id(choco) not in payloads:
                payloads[id(choco)] = choco.difference(self._node.model.vector)
            await self._node.send(peer, GossipModel(number, payloads[id(choco)]))

    async def mixed(self, number: int) -> Any:
        row = self._rows[number % len(self._rows)]
        mixed = self._node.model.vector.clone()
        for peer, change in (await self._inbox.of_round(number, row.takes)).items():
            self._choco[peer].receive(peer, change.vector)
            mixed += self._choco[peer].copies[peer] * (self._gamma[peer] * row.takes[peer])
        for peer, weight in row.gives.items():
            mixed -= self._choco[peer].own * (self._gamma[peer] * weight)
        return mixed

    def _peers(self) -> Iterable[str]:
        return {peer: None for row in self._rows for peer in (*row.takes, *row.gives)}


def codec_of_link(strategy: Dpsgd, node: Node, topology: Topology, peer: str) -> str:
    """The codec of the link to a peer; its other end comes to the same.

    ``auto``: the mildest whose messages cross while the slowest worker computes, though the slower way of the link
    has to share the port of the busier end.
    """
    if strategy.codec != "auto":
        return strategy.codec
    members = [node.plan.worker(member) for member in node.members]
    seconds = max(worker.batch / worker.samples_per_s for worker in members)
    rate = min(node.plan.rates[node.name][peer], node.plan.rates[peer][node.name])
    busy = max(len(row.gives) for end in (node.name, peer) for row in rows(topology, end))
    return choose_codec(rate / busy, 4 * len(node.model.vector), seconds)
