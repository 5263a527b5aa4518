"""Decentralised SGD (Lian et al. 2017): in every round each worker mixes its model with its neighbours'.

The gradient is taken at the model before mixing, so computing and exchanging overlap; with ``adapt: before`` the
worker steps first and its neighbours mix what came of it (adapt-then-combine), which overlaps nothing. Weights are
doubly stochastic: the mean of all models moves as in synchronous SGD, and how close they stay depends on the
topology's spectral gap.

With a codec only differences to public copies cross (CHOCO-SGD, Koloskova et al. 2019): see ``gossip``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from littoral.errors import InputError
from littoral.learning.codecs import Choco, make_codec
from littoral.learning.phantom import Phantom
from littoral.planning.topology import WEIGHTS
from littoral.strategies.gossip import Coded, Exchange, Whole
from littoral.strategies.peers import Peers, rest, step
from littoral.strategies.strategy import check_choice, check_number, check_whole
from littoral.worlds.node import Node

ONE_WAY = ("exponential", "one-peer-exponential", "equistatic")  # topologies whose links carry models one way


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
        exchange: Exchange = Whole(node) if self.codec == "none" else Coded(node, self.codec, self.gamma)
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
