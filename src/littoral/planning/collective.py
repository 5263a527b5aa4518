"""The messages of an all-reduce, which the planner counts, the simulator times and processes send.

Up to ``DIRECT`` members talk to each other directly, in two phases: everyone sends each owner its part of the
gradient, and owners send everyone the mean of theirs. With equal parts that is 2(n-1)/n of the vector out of each port,
the bytes of a ring, in two hops instead of 2(n-1). A weak member may own nothing: it then sends and receives
the vector once, in as many messages as there are owners. In simulation larger groups are a ring, for two phases of
n(n-1) flows would be too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from littoral.continuum.link import HEADER_BYTES

DIRECT = 8  # members that talk to each other directly in simulation


@dataclass(frozen=True, slots=True)
class Sending:
    """One message."""

    source: str
    target: str
    kind: str
    size: int


def cut(members: Sequence[str], weights: Mapping[str, float], length: int) -> dict[str, range]:
    """The part of a vector that each member owns, by weight; nearly equal ones where none of them has any.

    >>> cut(["a", "b", "c"], {"a": 2.0, "b": 1.0, "c": 0.0}, 9)
    {'a': range(0, 6), 'b': range(6, 9), 'c': range(9, 9)}
    """
    found = [weights.get(member, 1.0) for member in members]
    if not any(found):
        found = [1.0] * len(members)
    sums = [0.0, *accumulate(found)]
    marks = [length if reached == sums[-1] else int(length * reached / sums[-1]) for reached in sums]
    return {member: range(*part) for member, part in zip(members, pairwise(marks), strict=True)}


def phases(parts: Mapping[str, range], width: int) -> list[list[Sending]]:
    """What is sent at the same time; each phase begins when the one before is over. Alone: none."""
    members, n = list(parts), len(parts)
    if n < 2:
        return []
    if n > DIRECT:
        around = zip(members, [*members[1:], members[0]], strict=True)
        size = -(-2 * (n - 1) * width * sum(map(len, parts.values())) // n) + HEADER_BYTES
        return [[Sending(source, target, "Share", size) for source, target in around]]
    pairs = [(member, owner, width * len(parts[owner]) + HEADER_BYTES) for owner in members if parts[owner]
             for member in members if member != owner]  # fmt: skip
    shares = [Sending(member, owner, "Share", size) for member, owner, size in pairs]
    return [shares, [Sending(owner, member, "Mean", size) for member, owner, size in pairs]]


def hops(latencies: Sequence[float], members: int) -> float:
    """What latency adds to a phase, given every leg's: the longest; in a ring 2(n-1) hops, of the mean."""
    return max(latencies) if members <= DIRECT else 2 * (members - 1) / members * sum(latencies)


def ends(parts: Mapping[str, range], member: str) -> tuple[int, int]:
    """Messages that a member sends and receives in one all-reduce, and how many elements of the vector are in them."""
    owners = sum(1 for owner, part in parts.items() if part and owner != member)
    own, others = len(parts[member]), len(parts) - 1
    elements = sum(map(len, parts.values()))
    return 2 * (owners + (others if own else 0)), 2 * (elements - own + others * own)


def strongest(ranked: Iterable[str], count: int) -> dict[str, float]:
    """Weights by which the first ``count`` own equal parts, and the others nothing."""
    return {member: float(i < count) for i, member in enumerate(ranked)}
