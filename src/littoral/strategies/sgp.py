"""Stochastic gradient push (Assran et al. 2019): directed gossip in which nobody needs an answer.

Every worker keeps a numerator x and a weight w and trains at z = x / w. In a round it steps, sends each out-neighbour
a share of both and adds up what it receives. Only what is sent must sum to one (columns): mass is conserved, and
z tends to the mean of all models though some receive more than others. By default everyone sends to a single peer per
round, 1, 2, 4, ... places on.

With ``overlap`` (OSGP) a worker adds what has arrived and goes on; it waits only for shares that are more than so many
rounds late. What is on its way meanwhile is in nobody's z: w says how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.planning.topology import WEIGHTS
from littoral.strategies.gossip import neighbourhood, rows
from littoral.strategies.peers import Peers, rest, step
from littoral.strategies.strategy import check_choice, check_whole
from littoral.worlds.node import Message, Node


class PushedShare(Message, frozen=True):
    """A share of the sender's numerator and weight, after its step of a round."""

    round: int
    weight: float
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgp(Peers):
    """Step, push shares on, add up what comes."""

    name: ClassVar[str] = "sgp"
    mixing: ClassVar[str] = "column"

    topology: str = "one-peer-exponential"
    degree: int | None = None  # of random-regular, base-k and equistatic
    weights: str = "metropolis"
    overlap: int = 0  # rounds that a share may be late

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("weights", self.weights, WEIGHTS)
        check_whole("overlap", self.overlap, most=64)
        if self.degree is not None:
            check_whole("degree", self.degree, least=1)

    async def worker(self, node: Node) -> None:
        """A program that begins again, because a member came or went, begins with x = z and w = 1."""
        period, arrivals = rows(neighbourhood(node), node.name), Arrivals(node, self.overlap)
        x, w, number = node.model.snapshot(), 1.0, 0
        while True:
            gradient = await node.compute()
            if gradient.lease is None:
                await rest(node)
            z = node.model.snapshot()
            await step(node, gradient, self.boost)
            x = x + (node.model.vector - z)
            row = period[number % len(period)]
            for peer, share in row.gives.items():
                await node.send(peer, PushedShare(number, w * share, x * share))
            x, w = x * row.own, w * row.own
            for pushed in await arrivals.due(number, row.takes):
                x, w = x + pushed.vector, w + pushed.weight
            node.model.load(x / w)
            number += 1


class Arrivals:
    """Shares that were pushed here, each handed out once: in its own round, or at most ``late`` rounds later."""

    def __init__(self, node: Node, late: int) -> None:
        self._node, self._late = node, late
        self._here: dict[tuple[int, str], Any] = {}
        self._missing: set[tuple[int, str]] = set()

    async def due(self, number: int, senders: Any) -> list[Any]:
        """What there is to add in round ``number``, in which these send; waits for what would be too late."""
        self._missing.update((number, sender) for sender in senders)
        self._file(await self._node.arrived(PushedShare))
        while any(key[0] <= number - self._late and key not in self._here for key in self._missing):
            self._file([await self._node.receive(PushedShare)])
        taken = sorted(self._missing & self._here.keys())
        self._missing.difference_update(taken)
        return [self._here.pop(key) for key in taken]

    def _file(self, received: list[Any]) -> None:
        for one in received:
            self._here[one.message.round, one.sender] = one.message
