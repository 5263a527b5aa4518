"""Decentralised SGD (Lian et al. 2017): in every round each worker mixes its model with its neighbours'.

The gradient is taken at the model before mixing, so computing and exchanging overlap. Weights are doubly stochastic:
the mean of all models moves as in synchronous SGD, and how close they stay depends on the topology's spectral gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.planning.topology import Topology, repaired
from littoral.strategies.inbox import Inbox
from littoral.strategies.peers import Peers, rest, step
from littoral.strategies.strategy import check_choice, check_whole
from littoral.worlds.node import Message, Node


class Model(Message, frozen=True):
    """The sender's model at the beginning of a round."""

    round: int
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Dpsgd(Peers):
    """Mix with the neighbours, step by the own gradient, again."""

    name: ClassVar[str] = "dpsgd"

    topology: str = "ring"
    degree: int | None = None  # of random-regular, base-k and equistatic
    weights: str = "metropolis"

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("weights", self.weights, ("metropolis", "fastest"))
        if self.degree is not None:
            check_whole("degree", self.degree, least=1)

    async def worker(self, node: Node) -> None:
        graph, inbox, number = neighbourhood(node), Inbox(node, Model), 0
        while True:
            for peer in graph.receivers(node.name, number):
                await node.send(peer, Model(number, node.model.snapshot()))
            gradient = await node.compute()
            if gradient.lease is None:
                await rest(node)
            heard = await inbox.of_round(number, graph.senders(node.name, number))
            weights = graph.weights(node.name, number)
            models = {node.name: node.model.vector} | {peer: model.vector for peer, model in heard.items()}
            node.model.load(node.model.mean([(models[peer], weights[peer]) for peer in sorted(models)]))
            await step(node, gradient)
            number += 1


def neighbourhood(node: Node) -> Topology:
    """The plan's topology among the present members: the same on every one of them."""
    assert node.plan.topology is not None, "the plan has no topology"
    return repaired(node.plan.topology, node.members)
