"""How models cross in gossip: whole, or as coded changes of public copies (CHOCO-SGD, Koloskova et al. 2019).

Where links have different codecs, or are not used in the same rounds, one copy cannot serve them all: there is one per
kind of link. What a link carries, a share of the sender's copy, is added at one end and taken off at the other, so that
the mean stays whatever the copies are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from littoral.learning.codecs import Choco, choose_codec, default_gamma, make_codec
from littoral.planning.topology import Topology, repaired
from littoral.strategies.inbox import Inbox
from littoral.worlds.node import Message, Node


class GossipModel(Message, frozen=True):
    """The sender's model in a round; with a codec, the coded change of its public copy (round -1: its model)."""

    round: int
    vector: Any


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

    def __init__(self, node: Node, codec: str, gamma: float | None) -> None:
        self._node, self._inbox = node, Inbox(node, GossipModel)
        topology = neighbourhood(node)
        self._rows = rows(topology, node.name)
        gives = {peer: tuple(i for i, row in enumerate(self._rows) if peer in row.gives) for peer in self._peers()}
        links = {peer: (codec_of_link(codec, node, topology, peer), rounds) for peer, rounds in gives.items()}
        initial = node.model.snapshot()
        copies = {
            link: Choco(make_codec(link[0]), initial, [peer for peer in links if links[peer] == link])
            for link in dict.fromkeys(links.values())
        }
        self._choco = {peer: copies[link] for peer, link in links.items()}
        self._gamma = {
            peer: default_gamma(choco.codec) if gamma is None else gamma for peer, choco in self._choco.items()
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


def codec_of_link(codec: str, node: Node, topology: Topology, peer: str) -> str:
    """The codec of the link to a peer; its other end comes to the same.

    ``auto``: the mildest whose messages cross while the slowest worker computes, though the slower way of the link
    has to share the port of the busier end.
    """
    if codec != "auto":
        return codec
    members = [node.plan.worker(member) for member in node.members]
    seconds = max(worker.batch / worker.samples_per_s for worker in members)
    rate = min(node.plan.rates[node.name][peer], node.plan.rates[peer][node.name])
    busy = max(len(row.gives) for end in (node.name, peer) for row in rows(topology, end))
    return choose_codec(rate / busy, 4 * len(node.model.vector), seconds)
