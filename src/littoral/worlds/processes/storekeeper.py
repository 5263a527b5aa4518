"""A store's process: it hands out shards and the model that everyone begins with."""

from __future__ import annotations

import asyncio

from littoral.worlds.node import Message
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.line import Line
from littoral.worlds.processes.models import store_desk
from littoral.worlds.wire.endpoint import Arrival, PeerGone


class StoreKeeper:
    """A store's process."""

    def __init__(self, boot: Boot) -> None:
        self._line = Line(boot)
        self._desk = store_desk(boot, self._send_to)

    async def _send_to(self, target: str, message: Message) -> None:
        await self._line.endpoint.send(target, message)

    async def run(self) -> None:
        """Until the run is over."""
        answering: set[asyncio.Task[None]] = set()

        async def take(arrival: Arrival) -> None:
            # Beside the reading, since a slow worker must not keep the others from asking.
            task = asyncio.ensure_future(self._answer(arrival))
            answering.add(task)
            task.add_done_callback(answering.discard)

        try:
            await self._line.run(take)
        finally:
            for task in answering:
                task.cancel()

    async def _answer(self, arrival: Arrival) -> None:
        try:
            await self._desk.take(arrival.sender, arrival.message)
        except PeerGone:
            pass  # who asked is no more
        finally:
            arrival.release()
