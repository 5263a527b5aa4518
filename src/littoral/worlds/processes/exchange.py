"""All-reduce between processes: everyone owns a part of the vector, gets it from all, and gives its mean to all.

The same bytes as a ring, 2(n-1)/n of the vector out of each port, in two hops instead of 2(n-1): with latency, or
with processes that the scheduler stops now and then, hops are what costs. The mean of a part is computed once, by its
owner, in the members' order, so all members step with the same bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from littoral.learning.leases import Lease
from littoral.worlds.node import Gradient, Message, Reduced

if TYPE_CHECKING:
    from littoral.worlds.processes.node import ProcessNode


class Share(Message, frozen=True):
    """My gradient's part for its owner; no vector: I had no samples."""

    number: int
    samples: int
    lease: Lease | None
    vector: Any


class Mean(Message, frozen=True):
    """The mean of the part I own; no vector: nobody had samples."""

    number: int
    vector: Any


def bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """Nearly equal parts of a vector.

    >>> bounds(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    cuts = [length * i // parts for i in range(parts + 1)]
    return list(pairwise(cuts))


async def exchange(node: ProcessNode, gradient: Gradient, number: int) -> tuple[Reduced, tuple[Lease, ...]]:
    """The members' mean gradient, and the leases that went into it."""
    members = node.members
    parts = dict(zip(members, bounds(len(gradient.vector), len(members)), strict=True))
    others = [name for name in _after(members, node.name)]
    for owner in others:
        start, stop = parts[owner]
        part = gradient.vector[start:stop] if gradient.samples else None
        await node.send(owner, Share(number, gradient.samples, gradient.lease, part))
    own_start, own_stop = parts[node.name]
    shares = {node.name: Share(number, gradient.samples, gradient.lease, gradient.vector[own_start:own_stop])}
    for other in others:
        shares[other] = (await node.receive(Share, sender=other)).message
    ordered = [shares[name] for name in members]
    samples = sum(share.samples for share in ordered)
    weighted = [(share.vector, float(share.samples)) for share in ordered if share.samples]
    mean = node.model.mean(weighted) if weighted else None
    if mean is not None and node.narrow and others:
        mean = mean.half().float()  # as the others get it
    for other in others:
        await node.send(other, Mean(number, mean))
    whole = gradient.vector.clone() if len(members) > 1 else gradient.vector
    whole[own_start:own_stop] = mean if mean is not None else 0.0
    for other in others:
        vector = (await node.receive(Mean, sender=other)).message.vector
        start, stop = parts[other]
        whole[start:stop] = vector if vector is not None else 0.0
    leases = tuple(share.lease for share in ordered if share.lease is not None)
    return Reduced(whole, samples), leases


def _after(members: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The others, beginning with the next: so that not everybody sends to the same one first."""
    at = members.index(name)
    return members[at + 1 :] + members[:at]
