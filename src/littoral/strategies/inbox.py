"""Messages of neighbours, kept by sender and round until they are wanted: with a quorum, or as fresh as need be."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from littoral.worlds.node import Message, Node


class Inbox:
    """What neighbours sent of one kind, whose messages have a ``round``."""

    def __init__(self, node: Node, kind: type[Message]) -> None:
        self._node, self._kind = node, kind
        self._kept: dict[str, dict[int, Any]] = {}
        self._over = -math.inf  # rounds up to this one are nobody's concern any more

    async def of_round(self, number: int, senders: Collection[str], quorum: int | None = None) -> dict[str, Any]:
        """Messages of round ``number``: at least ``quorum`` of the senders' (all by default), and what else is here.

        What is older is forgotten, and dropped on sight if it is yet to come, so rounds must be asked for in order.
        """

        def wanted(sender: str) -> Any:
            return self._kept.get(sender, {}).get(number)

        self._forget(number - 1)
        here = await self._collect(senders, quorum, wanted)
        self._forget(number)
        return here

    async def newest(self, since: int, senders: Collection[str], quorum: int | None = None) -> dict[str, Any]:
        """From each sender its newest message, of round ``since`` or later; waits for those who have sent none such,
        or until there are ``quorum`` of them."""

        def wanted(sender: str) -> Any:
            rounds = self._kept.get(sender)
            return rounds[max(rounds)] if rounds and max(rounds) >= since else None

        here = await self._collect(senders, quorum, wanted)
        for sender, message in here.items():
            self._kept[sender] = {message.round: message}
        return here

    async def _collect(
        self, senders: Collection[str], quorum: int | None, wanted: Callable[[str], Any]
    ) -> dict[str, Any]:
        """What is wanted of each sender, as soon as so many have sent it."""
        need = len(senders) if quorum is None else min(quorum, len(senders))
        while True:
            self._file(await self._node.arrived(self._kind))
            here = {sender: found for sender in senders if (found := wanted(sender)) is not None}
            if len(here) >= need:
                return here
            self._file([await self._node.receive(self._kind)])

    def latest(self, sender: str) -> int:
        """The last round heard of from a sender; -1 if none is kept."""
        return max(self._kept.get(sender, ()), default=-1)

    def __len__(self) -> int:
        return sum(len(rounds) for rounds in self._kept.values())

    def _file(self, received: list[Any]) -> None:
        for one in received:
            if one.message.round > self._over:
                self._kept.setdefault(one.sender, {})[one.message.round] = one.message

    def _forget(self, number: int) -> None:
        """Rounds up to this one are over."""
        self._over = max(self._over, number)
        for rounds in self._kept.values():
            for old in [each for each in rounds if each <= number]:
                del rounds[old]
