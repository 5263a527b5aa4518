"""What the tests of the wire share: message kinds, two endpoints that know each other, a link that can be hurt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from littoral.learning.leases import Lease
from littoral.worlds.node import Message
from littoral.worlds.wire.endpoint import Arrival, Endpoint, Limits, Peer, Refusal
from littoral.worlds.wire.frames import Codec
from littoral.worlds.wire.keys import KeyPair, new_keys


class Note(Message, frozen=True):
    number: int


class Parcelled(Message, frozen=True):
    step: int
    vector: Any = None


class Rich(Message, frozen=True):
    lease: Lease | None
    weights: dict[str, float]
    spans: tuple[tuple[int, str], ...]
    blob: bytes
    inner: Note | None = None


CODEC = Codec([Note, Parcelled, Rich])


@dataclass
class Side:
    """An endpoint with its keys, address and everything it refused."""

    endpoint: Endpoint
    keys: KeyPair
    address: str
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def peer(self) -> Peer:
        return Peer(self.endpoint.name, self.address, self.keys.public)

    def reasons(self) -> set[str]:
        return {refusal.reason for refusal in self.refusals}


@contextlib.asynccontextmanager
async def opened(name: str, codec: Codec = CODEC, limits: Limits = Limits()) -> AsyncIterator[Side]:
    refusals: list[Refusal] = []
    keys = new_keys()
    endpoint = Endpoint(name, keys, codec, limits=limits, on_refusal=refusals.append)
    try:
        yield Side(endpoint, keys, await endpoint.open(), refusals)
    finally:
        await endpoint.close()


@contextlib.asynccontextmanager
async def pair(limits: Limits = Limits()) -> AsyncIterator[tuple[Side, Side]]:
    """Two endpoints, ``a`` and ``b``, that have met."""
    async with opened("a", limits=limits) as a, opened("b", limits=limits) as b:
        a.endpoint.meet(b.peer)
        b.endpoint.meet(a.peer)
        yield a, b


async def take(side: Side, within_s: float = 20.0) -> Arrival:
    """The next arrival, consumed at once."""
    async with asyncio.timeout(within_s):
        arrival = await side.endpoint.receive()
    arrival.release()
    return arrival


async def until(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Wait for something that will come about by itself."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


class Proxy:
    """A link between two endpoints: a TCP relay with a rate and a knife."""

    def __init__(self, target: str, bytes_per_s: float = 1e12) -> None:
        host, port = target.removeprefix("tcp://").split(":")
        self._target = (host, int(port))
        self._bytes_per_s = bytes_per_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._wires: set[asyncio.StreamWriter] = set()
        self.carried = 0  # bytes towards the target
        self.connections = 0
        self.severed = False

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=65536)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        host, port = self._server.sockets[0].getsockname()
        return f"tcp://{host}:{port}"

    def cut(self) -> None:
        """Break every connection, losing what is under way."""
        for wire in self._wires:
            wire.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._wires.add(writer)
        try:
            if not self.severed:
                self.connections += 1
                await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._wires.discard(writer)
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target, limit=65536)
        self._wires.add(far_writer)
        ways = [
            asyncio.create_task(self._copy(far_reader, writer, count=False)),
            asyncio.create_task(self._copy(reader, far_writer, count=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far_writer.transport.abort()
            self._wires.discard(far_writer)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: bool) -> None:
        loop = asyncio.get_running_loop()
        free_at = loop.time()
        while data := await reader.read(16384):
            free_at = max(free_at, loop.time() - 0.002) + len(data) / self._bytes_per_s
            if free_at > loop.time():
                await asyncio.sleep(free_at - loop.time())
            writer.write(data)
            await writer.drain()
            self.carried += len(data) * count
