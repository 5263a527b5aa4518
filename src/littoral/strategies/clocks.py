"""Clocks of a changing set of nodes, and the one rule that bounds how far they drift apart.

A node may start its next iteration while it is at most ``bound`` iterations ahead of the slowest: BSP with bound 0,
SSP with a finite one, asynchronous with infinity. Each operation takes constant time on average.
"""

from __future__ import annotations

from collections import Counter


class Clocks:
    """Iterations completed, per node.

    >>> clocks = Clocks(["a", "b"], bound=1)
    >>> clocks.advance("a"); clocks.may_start("a"); clocks.advance("a"); clocks.may_start("a")
    True
    False
    """

    def __init__(self, nodes: list[str] | tuple[str, ...], bound: float) -> None:
        self._bound = bound
        self._at = dict.fromkeys(nodes, 0)
        self._count: Counter[int] = Counter(self._at.values())
        self.slowest = 0

    def __contains__(self, node: str) -> bool:
        return node in self._at

    def __len__(self) -> int:
        return len(self._at)

    def advance(self, node: str) -> None:
        """``node`` completed an iteration."""
        self._move(node, self._at[node] + 1)

    def admit(self, node: str) -> None:
        """A new node starts level with the slowest, so that nobody waits for iterations it never did."""
        if node not in self._at:
            self._at[node] = self.slowest
            self._count[self.slowest] += 1

    def reach(self, node: str, clock: int) -> None:
        """``node`` is known to have completed ``clock`` iterations; who was not there yet is admitted at them."""
        if node in self._at:
            self._move(node, max(clock, self._at[node]))
            return
        self.slowest = min(clock, self.slowest) if self._at else clock
        self._at[node] = clock
        self._count[clock] += 1

    def remove(self, node: str) -> None:
        """Nobody waits for ``node`` any more."""
        if node in self._at:
            self._leave(self._at.pop(node))

    def may_start(self, node: str) -> bool:
        """Whether the bound lets ``node`` begin its next iteration."""
        return self.allows(self._at[node])

    def allows(self, clock: int) -> bool:
        """Whether the bound lets somebody who completed ``clock`` iterations begin the next; nobody binds nobody."""
        return not self._at or clock - self.slowest <= self._bound

    def _move(self, node: str, clock: int) -> None:
        before, self._at[node] = self._at[node], clock
        self._count[clock] += 1
        self._leave(before)

    def _leave(self, clock: int) -> None:
        self._count[clock] -= 1
        if not self._count[clock]:
            del self._count[clock]
            if clock == self.slowest and self._count:
                # Clocks move one by one, so this finds the next in a step or two.
                while self.slowest not in self._count:
                    self.slowest += 1
