"""All-reduce between processes: owners get their part of the vector from all, and give its mean to all.

Two hops instead of a ring's 2(n-1): with latency, or with processes that the scheduler stops now and then, hops are
what costs. The plan says who owns how much (``planning.collective``). The mean of a part is computed once, by its
owner, in the members' order, so all members step with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from littoral.learning.leases import Lease
from littoral.planning.collective import cut
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
    """The mean of the part I own, over so many samples of these leases; no vector: nobody had samples."""

    number: int
    samples: int
    leases: tuple[Lease, ...]
    vector: Any


async def exchange(node: ProcessNode, gradient: Gradient, number: int) -> tuple[Reduced, tuple[Lease, ...]]:
    """The members' mean gradient, and the leases that went into it."""
    members = node.members
    parts = cut(members, node.plan.reducing, len(gradient.vector))
    others = _after(members, node.name)
    owners = [other for other in others if parts[other]]
    for owner in owners:
        part = _of(gradient.vector, parts[owner]) if gradient.samples else None
        await node.send(owner, Share(number, gradient.samples, gradient.lease, part))
    means = {}
    if parts[node.name]:
        means[node.name] = await _reduce(node, gradient, number, parts[node.name], others)
        for other in others:
            await node.send(other, means[node.name])
    for owner in owners:
        means[owner] = (await node.receive(Mean, sender=owner)).message
    whole = gradient.vector.clone() if len(members) > 1 else gradient.vector
    for owner, mean in means.items():
        _of(whole, parts[owner])[:] = mean.vector if mean.vector is not None else 0.0
    mean = next(iter(means.values()))
    return Reduced(whole, mean.samples), mean.leases


async def _reduce(node: ProcessNode, gradient: Gradient, number: int, part: range, others: tuple[str, ...]) -> Mean:
    """The mean of the part that this node owns, from everybody's shares of it."""
    shares = {node.name: Share(number, gradient.samples, gradient.lease, _of(gradient.vector, part))}
    for other in others:
        shares[other] = (await node.receive(Share, sender=other)).message
    ordered = [shares[name] for name in node.members]
    weighted = [(share.vector, float(share.samples)) for share in ordered if share.samples]
    mean = node.model.mean(weighted) if weighted else None
    if mean is not None and node.narrow and others:
        mean = mean.half().float()  # as the others get it
    leases = tuple(share.lease for share in ordered if share.lease is not None)
    return Mean(number, sum(share.samples for share in ordered), leases, mean)


def _of(vector: Any, part: range) -> Any:
    return vector[part.start : part.stop]


def _after(members: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The others, beginning with the next: so that not everybody sends to the same one first."""
    at = members.index(name)
    return members[at + 1 :] + members[:at]
