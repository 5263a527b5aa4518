"""A store and a worker over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from depot import SPANS, assert_true, open_desk, open_pantry, story, until

from littoral.worlds.node import Message
from littoral.worlds.processes.store import KINDS, StoreDesk
from littoral.worlds.wire.endpoint import Endpoint, Peer
from littoral.worlds.wire.frames import Codec
from littoral.worlds.wire.keys import new_keys


@asynccontextmanager
async def endpoint(
    name: str, handle: Callable[[str, Message], Awaitable[None]]
) -> AsyncIterator[tuple[Endpoint, Peer]]:
    """An end of the wire that hands over what arrives, and how others can meet it."""
    keys = new_keys()
    end = Endpoint(name, keys, Codec(KINDS))

    async def read() -> None:
        while True:
            arrival = await end.receive()
            await handle(arrival.sender, arrival.message)
            arrival.release()

    address = await end.open()
    reading = asyncio.create_task(read())
    try:
        yield end, Peer(name, address, keys.public)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await end.close()


@story
async def test_a_store_killed_half_way_and_started_again(tmp_path: Path) -> None:
    steps, desks = [0], list[StoreDesk]()

    async def take(sender: str, message: Message) -> None:
        await pantry.take(sender, message)

    async def serve(sender: str, message: Message) -> None:
        await desks[-1].take(sender, message)

    async with endpoint("w-1", take) as (worker, itself):
        pantry = open_pantry(worker.send, tmp_path, per_block=10)
        fetch = asyncio.create_task(pantry.prefetch("w-1", lambda have, total: steps.append(have)))
        for enough in (20, 80):
            async with endpoint("store", serve) as (store, peer):
                desks.append(open_desk(store.send))
                store.meet(itself)
                worker.meet(peer)
                pantry.resume()
                await until(lambda enough=enough: steps[-1] >= enough, 0.001)
        await fetch
    assert_true(pantry, SPANS[:1])
    assert pantry.spoiled == 0 and pantry.bytes_received < 1.5 * 800 * 73
