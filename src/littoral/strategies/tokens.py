"""Tokens between neighbours: how far a node may get ahead of those who give them (Luo et al., "Hop", ASPLOS 2019).

A node that goes on by some iterations takes as many tokens from each of its givers, and gives as many to each of its
takers. What j holds of i is then ``start`` + Iter(i) - Iter(j), less what is under way: j never gets more than
``start`` iterations ahead of i, and knows a little late how far i is ahead. No token is ever lost or made.
"""

from __future__ import annotations

from collections.abc import Collection

from littoral.worlds.node import Message, Node


class Tokens:
    """One node's end of its token queues; ``kind`` is the message that carries some, in its ``count``."""

    def __init__(
        self, node: Node, kind: type[Message], *, givers: Collection[str], takers: Collection[str], start: int
    ) -> None:
        self._node, self._kind, self._takers, self._start = node, kind, takers, start
        self._held = dict.fromkeys(givers, start)

    async def look(self) -> None:
        """Count what has arrived."""
        for received in await self._node.arrived(self._kind):
            self._held[received.sender] += received.message.count

    def lead(self, giver: str) -> int:
        """How many iterations a giver is ahead of me, as far as I know; negative: behind. Of strangers: 0."""
        return self._held.get(giver, self._start) - self._start

    async def take(self, count: int = 1) -> None:
        """Take ``count`` tokens from every giver, as soon as all of them have given so many."""
        await self.look()
        while min(self._held.values(), default=count) < count:
            received = await self._node.receive(self._kind)
            self._held[received.sender] += received.message.count
        for giver in self._held:
            self._held[giver] -= count

    async def give(self, count: int = 1) -> None:
        """Give every taker ``count`` tokens."""
        for taker in self._takers:
            await self._node.send(taker, self._kind(count))
