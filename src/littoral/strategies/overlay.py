"""Groups of servers that mirror each other, and the hubs that join groups: Gaia's overlay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Who mirrors with whom: groups of servers, the first of each its hub. In a single group there is no hub."""

    groups: tuple[tuple[str, ...], ...]

    def mates(self, name: str) -> tuple[str, ...]:
        """The others of my group."""
        return tuple(other for other in self._group(name) if other != name)

    def hubs(self, name: str) -> tuple[str, ...]:
        """The other groups' hubs, if I am one."""
        mine = self._group(name)
        return tuple(group[0] for group in self.groups if group is not mine) if mine[0] == name else ()

    def _group(self, name: str) -> tuple[str, ...]:
        return next(group for group in self.groups if name in group)


def joined(names: Sequence[str], rates: Mapping[str, Mapping[str, float]], count: int) -> Overlay:
    """``count`` groups of nodes that reach each other fast: whose slowest way is fastest are joined first.

    The hub of a group is who reaches all others best, by its slowest way out of the group.
    """

    def slowest(some: Sequence[str], others: Sequence[str]) -> float:
        ways = [rates[a][b] for x in some for y in others for a, b in ((x, y), (y, x))]
        return min(ways, default=math.inf)

    groups: list[tuple[str, ...]] = [(name,) for name in names]
    while len(groups) > count:
        a, b = max(combinations(groups, 2), key=lambda pair: (slowest(*pair), -len(pair[0]) - len(pair[1])))
        groups = [a + b if group is a else group for group in groups if group is not b]

    def led(group: tuple[str, ...]) -> tuple[str, ...]:
        outside = [name for name in names if name not in group]
        hub = max(group, key=lambda name: slowest([name], outside))
        return hub, *(name for name in group if name != hub)

    return Overlay(groups=tuple(led(group) for group in groups))
