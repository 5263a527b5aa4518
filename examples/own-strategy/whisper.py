"""A strategy of one's own, in one file: now and then each worker tells another one its model, who takes the mean."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.strategies.peers import Peers, others, rest, step
from littoral.worlds.node import Message, Node


class Whispered(Message, frozen=True):
    """My model."""

    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Whisper(Peers):
    """After a step, with probability ``chance``, tell a random other worker; average with what arrived."""

    name: ClassVar[str] = "whisper"
    limit: ClassVar[float] = math.inf  # nobody waits for anybody

    chance: float = 0.5

    async def worker(self, node: Node) -> None:
        dice = node.random("whispering")
        while True:
            if not await step(node, await node.compute()):
                await rest(node)  # no work left: others may still have some to tell of
            if len(node.members) > 1 and dice.random() < self.chance:
                await node.send(dice.choice(others(node)), Whispered(node.model.snapshot()))
            for heard in await node.arrived(Whispered):
                node.model.load(node.model.mean([(node.model.vector, 1.0), (heard.message.vector, 1.0)]))
