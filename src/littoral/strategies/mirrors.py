"""Copies of one model at several sites, which tell each other only what matters: the far side of Gaia's servers.

Every copy adds its own changes at once. What a round leaves accumulated is sent once it is significant, more than a
threshold of the parameter it changes; a clock follows on the same channel, so whoever has heard clock t has all that
was significant up to t. With groups, members mirror inside their group and hubs carry what the group changed to the
other hubs, and what those changed to their group: each change reaches each copy once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from littoral.learning.codecs import HEADER_BYTES, Significant, Stream
from littoral.learning.phantom import Phantom
from littoral.strategies.clocks import Clocks
from littoral.strategies.overlay import Overlay
from littoral.worlds.node import Message, Node, Received

SITE, GROUP, REST = "site", "group", "rest"  # whose changes: the sender's, its group's, those of all other groups


class MirrorUpdate(Message, frozen=True):
    """What became significant in round ``clock`` (of relays: since the round before it), coded: add it to your copy."""

    scope: str
    clock: int
    vector: Any


class MirrorClock(Message, frozen=True):
    """All that was significant up to round ``clock`` is sent. ``idle``: until I say otherwise, do not wait for me."""

    scope: str
    clock: int
    idle: bool


class MirrorBarrier(Message, frozen=True):
    """The update that follows will be late: until it is there, let nobody read these elements (int32; None: any)."""

    clock: int
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What copies agreed on. ``threshold`` gives that of a round, which depends on nothing else."""

    threshold: Callable[[int], float]
    ahead: int  # rounds that a copy may lead the slowest other by when it is read
    floor: float  # what smaller parameters count as, when a change is compared to them
    density: float  # share of elements that are significant, where there is no mathematics to say so
    timely_s: float  # an update that takes longer is announced by a barrier


class Mirrors:
    """One copy's dealings with the others. ``node.model`` is the copy, and changed by nobody else meanwhile."""

    def __init__(self, node: Node, overlay: Overlay, terms: Terms) -> None:
        self._node, self._terms = node, terms
        self._mates, self._hubs = overlay.mates(node.name), overlay.hubs(node.name)
        self.clock = 0  # rounds of this copy
        self.group = Clocks((node.name, *self._mates), terms.ahead)
        member = len(overlay.groups) > 1 and not self._hubs
        self.beyond = Clocks((REST,) if member else self._hubs, terms.ahead)
        self.stream = Stream(Significant(expected=terms.density))  # its residual is what is not significant yet
        everything = min(1.0, terms.density * (1 + len(self._mates)))
        self._relays = Significant(threshold=0.0, expected=everything)
        self.fresh: Any = None  # what its own workers changed since the last round
        self.held: dict[str, Any] = {}  # of a hub: changes of its group, and of the rest, that it did not pass on yet
        self._told = {GROUP: (0, False), REST: (0, False)}
        self.blocked: dict[str, Any] = {}  # by sender: elements of an update that was announced
        self._free_at: dict[str, float] = {}  # when the way to somebody should have carried all it was given

    # -- what the site's own server says ------------------------------------------------------------------------

    def move(self, change: Any) -> None:
        """The copy was changed by its own workers."""
        self.fresh = _sum(self.fresh, change)

    async def close(self) -> None:
        """A round is over: send what is significant by now, then the clock."""
        self.clock += 1
        if self.fresh is not None:
            fresh, self.fresh, threshold = self.fresh, None, self._terms.threshold(self.clock)
            coded = self.stream.encode(fresh, weights=self._weights(), threshold=threshold)
            await self._ship(self._mates, SITE, self.clock, coded)
            self._hold(GROUP, coded)
        self.group.reach(self._node.name, self.clock)
        await self._tell(self._mates, SITE, self.clock, idle=False)
        await self._relay()

    async def rest(self) -> None:
        """Nobody works here any more: let nobody wait for it."""
        if self.fresh is not None:  # of workers who were ahead of one that never came to close the round
            await self.close()
        self.group.remove(self._node.name)
        await self._tell(self._mates, SITE, self.clock, idle=True)
        await self._relay()

    async def wake(self) -> None:
        """Somebody works here again: begin level with the slowest of the others, as far as known."""
        slowest = [clocks.slowest for clocks in (self.group, self.beyond) if clocks]
        self.clock = max(self.clock, min(slowest, default=0))
        self.group.reach(self._node.name, self.clock)
        await self._tell(self._mates, SITE, self.clock, idle=False)
        await self._relay()

    def readable(self, start: int, stop: int) -> bool:
        """Whether elements ``start`` to ``stop`` may be read: nobody is too far behind, and none of them is awaited."""
        if not (self.group.allows(self.clock) and self.beyond.allows(self.clock)):
            return False
        return not any(_meets(elements, start, stop) for elements in self.blocked.values())

    # -- what other copies say ----------------------------------------------------------------------------------

    async def take(self, received: Received) -> None:
        """A message from another copy."""
        sender = received.sender
        match received.message:
            case MirrorBarrier(vector=elements):
                self.blocked[sender] = elements
            case MirrorUpdate(vector=coded):
                self._add(sender, coded)
            case MirrorClock(scope=scope, clock=clock, idle=idle):
                clocks, whose = (self.group if scope == SITE else self.beyond), (REST if scope == REST else sender)
                if idle:
                    clocks.remove(whose)
                else:
                    clocks.reach(whose, clock)
                await self._relay()

    def _add(self, sender: str, coded: Any) -> None:
        """Not to the own residual: whoever made the change tells everybody else of it too."""
        model = self._node.model
        model.load(model.vector + self._decoded(coded))
        self.blocked.pop(sender, None)
        self._hold(REST if sender in self._hubs else GROUP, coded)

    async def _relay(self) -> None:
        """Of a hub: pass on what is complete up to a clock that was not told yet."""
        ways = ((GROUP, self.group, self._hubs), (REST, self.beyond, self._mates)) if self._hubs else ()
        for scope, clocks, targets in ways:
            before, now = self._told[scope], (max(self._told[scope][0], clocks.slowest), not clocks)
            if now == before:
                continue
            self._told[scope], changes = now, self.held.pop(scope, None)
            if changes is not None:
                await self._ship(targets, scope, before[0] + 1, self._relays.encode(changes, weights=changes))
            await self._tell(targets, scope, *now)

    def _hold(self, scope: str, coded: Any) -> None:
        if self._hubs:
            self.held[scope] = _sum(self.held.get(scope), self._decoded(coded))

    # -- sending ------------------------------------------------------------------------------------------------

    async def _tell(self, targets: Sequence[str], scope: str, clock: int, idle: bool) -> None:
        for target in targets:
            await self._node.send(target, MirrorClock(scope, clock, idle))

    async def _ship(self, targets: Sequence[str], scope: str, clock: int, coded: Any) -> None:
        if len(coded) == HEADER_BYTES:  # nothing in it
            return
        for target in targets:
            if self._is_late(target, coded.nbytes):
                await self._node.send(target, MirrorBarrier(clock, self._elements(coded)))
            await self._node.send(target, MirrorUpdate(scope, clock, coded))

    def _is_late(self, target: str, size: int) -> bool:
        """Whether what is queued on the way takes too long. Who reads in lock-step waits for the clock anyway.

        By the plan's rate for a lone flow; latency is the clock's business. A barrier is behind what was sent before
        it, which either is in time or was announced itself.
        """
        now, rate = self._node.now, self._node.plan.rates.get(self._node.name, {}).get(target, math.inf)
        self._free_at[target] = max(now, self._free_at.get(target, 0.0)) + size / rate
        return self._terms.ahead > 0 and self._free_at[target] - now > self._terms.timely_s

    def _elements(self, coded: Any) -> Any:
        """Which ones an update holds, as bytes of int32; None: all."""
        if isinstance(coded, Phantom):
            return Phantom((len(coded) - HEADER_BYTES) // 2, 1)
        held = self._relays.held(coded, len(self._node.model.vector))
        return None if isinstance(held, slice) else held.int().numpy().view("uint8")

    def _decoded(self, coded: Any) -> Any:
        return self._relays.decode(coded, len(self._node.model.vector))

    def _weights(self) -> Any:
        vector = self._node.model.vector
        return vector if isinstance(vector, Phantom) else vector.abs().clamp(min=self._terms.floor)


def _sum(before: Any, change: Any) -> Any:
    return change if before is None else before + change


def _meets(elements: Any, start: int, stop: int) -> bool:
    if elements is None or isinstance(elements, Phantom):
        return True
    indices = elements.view("int32")
    return bool(((indices >= start) & (indices < stop)).any())
