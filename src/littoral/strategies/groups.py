"""Averaging inside a group by messages: everyone owns a part, gets the others' shares of it and returns their mean.

Two hops, 2(g-1)/g of the vector out of every member's port (a reduce-scatter and an all-gather). Any group of members
can average while others do something else; members of several groups must meet them in the same order, one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from littoral.learning.codecs import Codec
from littoral.worlds.node import Message, Node


class GroupShare(Message, frozen=True):
    """My values for the part that you own, to be averaged with this weight in meeting ``number``."""

    number: int
    weight: float
    vector: Any


class GroupMean(Message, frozen=True):
    """The mean of the part that I own."""

    number: int
    vector: Any


async def average(
    node: Node, group: Sequence[str], vector: Any, *, number: int = 0, weight: float = 1.0, codec: Codec | None = None
) -> Any:
    """The weighted mean of the group's vectors, the same on every member bit for bit.

    All members give the same ``group``, in the same order, and ``number``. With a codec every part crosses coded, and
    everyone, its owner too, takes what the code says. Raises ``PeerLost`` if a member is lost meanwhile.
    """
    if len(group) == 1:
        return vector
    parts = _cut(group, len(vector))
    mine = parts[node.name]
    for peer in group:
        if peer != node.name:
            await node.send(peer, GroupShare(number, weight, _coded(codec, vector[parts[peer]])))
    shares = []
    for peer in group:
        if peer == node.name:
            shares.append((vector[mine], weight))
        else:
            share = await _hear(node, GroupShare, peer, number)
            shares.append((_decoded(codec, share.vector, mine), share.weight))
    mean = node.model.mean(shares)
    if codec is None and node.plan.wire == "float16":
        mean = mean.half().float()  # as the others get it
    outcome = _coded(codec, mean)
    for peer in group:
        if peer != node.name:
            await node.send(peer, GroupMean(number, outcome))
    result = vector.clone()
    for peer in group:
        coded = outcome if peer == node.name else (await _hear(node, GroupMean, peer, number)).vector
        result[parts[peer]] = _decoded(codec, coded, parts[peer])
    return result


async def _hear(node: Node, kind: type[Message], peer: str, number: int) -> Any:
    message: Any = (await node.receive(kind, sender=peer)).message
    if message.number != number:
        raise RuntimeError(f"{node.name} is in meeting {number}, {peer} in {message.number}: not the same order")
    return message


def _cut(group: Sequence[str], length: int) -> dict[str, slice]:
    """Who owns which part: as equal as can be."""
    ends = [round(i * length / len(group)) for i in range(len(group) + 1)]
    return {peer: slice(ends[i], ends[i + 1]) for i, peer in enumerate(group)}


def _coded(codec: Codec | None, vector: Any) -> Any:
    return vector if codec is None else codec.encode(vector)


def _decoded(codec: Codec | None, vector: Any, part: slice) -> Any:
    return vector if codec is None else codec.decode(vector, part.stop - part.start)
