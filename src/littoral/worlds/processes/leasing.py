"""A worker's leases: asked for ahead of need, so that no step waits for the coordinator's answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from littoral.learning.leases import Lease
from littoral.worlds.node import Message
from littoral.worlds.processes.control import AskLeases, GrantLeases

LOW, FULL = 2, 8  # with fewer than LOW leases at hand or on their way, ask for up to FULL: seldom, but early enough


class Leasing:
    """Leases of one node, in order."""

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._at_hand: deque[Lease] = deque()
        self._asked = 0
        self._exhausted = False
        self.series = 0
        self._changed = asyncio.Event()
        self.batch = 1

    def begin(self, series: int) -> None:
        """A fresh beginning makes everything void; the same series goes on."""
        if series != self.series:
            self.series = series
            self._at_hand.clear()
            self._asked = 0
        self._exhausted = False
        self._changed.set()

    async def next(self) -> Lease | None:
        """The next lease; None when there is no work at present."""
        while True:
            self._ask()
            if self._at_hand:
                lease = self._at_hand.popleft()
                self._ask()
                return lease
            if self._exhausted and not self._asked:
                return None
            self._changed.clear()
            await self._changed.wait()

    def _ask(self) -> None:
        have = len(self._at_hand) + self._asked
        if have < LOW and not self._exhausted:
            self._asked += FULL - have
            self._post(AskLeases(self.series, self.batch, FULL - have))

    def granted(self, grant: GrantLeases) -> None:
        """The coordinator's answer."""
        if grant.series == self.series:
            self._asked = 0
            self._at_hand.extend(grant.leases)
            self._exhausted = grant.exhausted
            self._changed.set()

    def more(self) -> None:
        """There is work again."""
        self._exhausted = False
        self._changed.set()

    def put_back(self, lease: Lease) -> None:
        """It was not used: it comes next."""
        self._at_hand.appendleft(lease)
        self._changed.set()
