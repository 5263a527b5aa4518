"""Messages of neighbours, kept by sender and round until they are wanted: with a quorum, or as fresh as need be."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from littoral.worlds.node import Message, Node


class Inbox:
    """What neighbours sent of one kind, whose messages have a ``round``."""

    def __init__(self, node: Node, kind: type[Message]) -> None:
        self._node, self._kind = node, kind
        self._kept: dict[str, dict[int, Any]] = {}

    async def of_round(self, number: int, senders: Collection[str], quorum: int | None = None) -> dict[str, Any]:
        """Messages of round ``number``: at least ``quorum`` of the senders' (all by default), and what else is here.

        What is older is forgotten, so rounds must be asked for in order.
        """
        need = len(senders) if quorum is None else min(quorum, len(senders))
        self._file(await self._node.arrived(self._kind))
        while True:
            here = {sender: self._kept[sender][number] for sender in senders if number in self._kept.get(sender, {})}
            if len(here) >= need:
                self._forget(number)
                return here
            self._file([await self._node.receive(self._kind)])

    async def newest(self, since: int, senders: Collection[str]) -> dict[str, Any]:
        """From each sender its newest message, of round ``since`` or later; waits for those who have sent none such."""
        self._file(await self._node.arrived(self._kind))
        while not all(max(self._kept.get(sender, ()), default=since - 1) >= since for sender in senders):
            self._file([await self._node.receive(self._kind)])
        for sender in senders:
            rounds = self._kept[sender]
            self._kept[sender] = {max(rounds): rounds[max(rounds)]}
        return {sender: next(iter(self._kept[sender].values())) for sender in senders}

    def latest(self, sender: str) -> int:
        """The last round heard of from a sender; -1 if none is kept."""
        return max(self._kept.get(sender, ()), default=-1)

    def __len__(self) -> int:
        return sum(len(rounds) for rounds in self._kept.values())

    def _file(self, received: list[Any]) -> None:
        for one in received:
            self._kept.setdefault(one.sender, {})[one.message.round] = one.message

    def _forget(self, number: int) -> None:
        """Rounds up to this one are over."""
        for rounds in self._kept.values():
            for old in [each for each in rounds if each <= number]:
                del rounds[old]
