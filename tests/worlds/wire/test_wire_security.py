"""Strangers and misbehaving peers get nothing, harm nobody, and are reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
import zmq
import zmq.asyncio
from wiring import CODEC, Note, Parcelled, Side, opened, pair, take, until

from littoral.worlds.wire.endpoint import Endpoint, Limits, Peer, Refusal
from littoral.worlds.wire.frames import Ack, Chunk, Greeting, Opening, Priority, decode_ack, encode_head
from littoral.worlds.wire.keys import KeyPair, new_keys
from littoral.worlds.wire.payload import Form
from littoral.worlds.wire.refusals import Refusals

ZMTP_CURVE = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(15) + b"\0" + bytes(31)


async def still_talks(a: Side, b: Side) -> None:
    """Good peers keep talking, whatever else goes on."""
    await a.endpoint.send("b", Parcelled(1, bytes(500_000)))
    assert (await take(b)).message.step == 1
    await b.endpoint.send("a", Note(2))
    assert (await take(a)).message == Note(2)


@contextlib.asynccontextmanager
async def raw_tcp(side: Side) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = side.address.removeprefix("tcp://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def raw_zmq(side: Side, keys: KeyPair | None, server: bytes | None = None) -> AsyncIterator[zmq.asyncio.Socket]:
    """A DEALER that speaks to an endpoint without using ours."""
    context = zmq.asyncio.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    if keys is not None:
        socket.curve_serverkey = server or side.keys.public
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    socket.connect(side.address)
    try:
        yield socket
    finally:
        socket.close()
        context.term()


@contextlib.asynccontextmanager
async def traitor(victim: Side) -> AsyncIterator[Raw]:
    """A peer with a valid key, met under the name ``mallory``, that writes its frames by hand."""
    keys = new_keys()
    victim.endpoint.meet(Peer("mallory", "tcp://127.0.0.1:1", keys.public))
    async with raw_zmq(victim, keys) as socket:
        yield Raw(socket)


class Raw:
    """Frames written by hand."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self.socket = socket

    async def greet(self, session: int = 1, question: int = 1) -> Ack:
        await self.socket.send(encode_head(Greeting(session, question)))
        return decode_ack(await self.socket.recv())

    async def send(self, *frames: bytes) -> None:
        await self.socket.send_multipart(list(frames))


def note(number: int, session: int = 1, content: int = 1) -> list[bytes]:
    encoded = CODEC.encode(Note(content))
    opening = Opening("Note", len(encoded.fields), 0, None, 0, 0.0)
    return [encode_head(Chunk(session, number, Priority.BULK, opening)), encoded.fields]


def test_a_stranger_with_keys_of_its_own() -> None:
    async def story() -> None:
        async with pair() as (a, b), raw_zmq(b, new_keys()) as socket:
            await socket.send(encode_head(Greeting(1, 1)))
            await until(lambda: Refusal("127.0.0.1", "unknown key", 1) in b.refusals)
            assert not await socket.poll(100)
            await still_talks(a, b)

    asyncio.run(story())


def test_one_that_takes_another_key_for_ours() -> None:
    async def story() -> None:
        async with pair() as (a, b), raw_zmq(b, a.keys, server=new_keys().public):
            await until(lambda: "handshake" in b.reasons())
            await still_talks(a, b)

    asyncio.run(story())


def test_one_without_keys() -> None:
    async def story() -> None:
        async with pair() as (a, b), raw_zmq(b, None) as socket:
            await socket.send(encode_head(Greeting(1, 1)))
            await until(lambda: "handshake" in b.reasons())
            await still_talks(a, b)

    asyncio.run(story())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 300,
        bytes(300),
        ZMTP_CURVE + b"\x06" + (10**10).to_bytes(8, "big"),
    ],
    ids=["http", "ones", "zeros", "ten gigabytes"],
)
def test_garbage_on_the_bare_socket(garbage: bytes) -> None:
    async def story() -> None:
        async with pair() as (a, b), raw_tcp(b) as (reader, writer):
            writer.write(garbage)
            with contextlib.suppress(OSError):
                await asyncio.wait_for(reader.read(), 10)
            await until(lambda: "handshake" in b.reasons())
            await still_talks(a, b)

    asyncio.run(story())


def test_one_that_connects_and_says_nothing() -> None:
    async def story() -> None:
        async with pair() as (a, b), raw_tcp(b), raw_tcp(b) as (_, slow):
            slow.write(ZMTP_CURVE[:20])
            await still_talks(a, b)
            await until(lambda: sum(r.count for r in b.refusals if r.reason == "silent handshake") == 2)
            await still_talks(a, b)

    asyncio.run(story())


def test_a_replayed_frame() -> None:
    async def story() -> None:
        async with pair() as (a, b), traitor(b) as mallory:
            await mallory.greet()
            await mallory.send(*note(0, content=5))
            assert (await take(b)).message == Note(5)
            await mallory.send(*note(0, content=6))
            await until(lambda: Refusal("mallory", "replayed", 1) in b.refusals)
            await mallory.greet(session=2)
            await mallory.send(*note(0, session=1))
            await until(lambda: sum(r.count for r in b.refusals if r.reason == "replayed") == 2)
            await mallory.send(*note(0, session=2, content=7))
            assert (await take(b)).message == Note(7)
            await still_talks(a, b)

    asyncio.run(story())


def test_frames_recorded_and_played_again_on_a_new_connection() -> None:
    async def story() -> None:
        keys = new_keys()
        async with pair() as (a, b):
            b.endpoint.meet(Peer("mallory", "tcp://127.0.0.1:1", keys.public))
            for again in (False, True):
                async with raw_zmq(b, keys) as socket:
                    assert (await Raw(socket).greet()).received == int(again)
                    await Raw(socket).send(*note(0))
                    await until(lambda again=again: ("replayed" in b.reasons()) == again)  # type: ignore[misc]
                    if not again:
                        await take(b)
            await still_talks(a, b)

    asyncio.run(story())


GARBAGE: list[Sequence[bytes]] = [
    [b""],
    [b"\xc1\xff" * 50],
    [b"\x81\xa1a\x01"],
    [encode_head(Greeting(1, 1)) + b"\0"],
    [encode_head(Chunk(1, 0, Priority.BULK, None)), b"xyz"],
    [encode_head(Chunk(1, 7, Priority.BULK, None)), b"xyz"],
    [encode_head(Chunk(1, 0, Priority.BULK, Opening("Note", 3, 0, None, 0, 0.0)))],
    [encode_head(Chunk(1, 0, Priority.BULK, Opening("Note", 3, 0, None, 0, 0.0))), b"\x91\xa1x"],
    [encode_head(Chunk(1, 0, Priority.BULK, Opening("Note", 3, 0, None, 0, 0.0))), b"\xc1\xc1\xc1\xc1\xc1"],
    [b"x"] * 100,
]


@pytest.mark.parametrize("frames", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_from_a_peer(frames: Sequence[bytes]) -> None:
    async def story() -> None:
        async with pair() as (a, b), traitor(b) as mallory:
            await mallory.greet()
            await mallory.send(*frames)
            await until(lambda: Refusal("mallory", "malformed", 1) in b.refusals)
            await still_talks(a, b)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "vector_bytes", "reason"),
    [("os.system", 0, "wrong kind"), ("Message", 0, "wrong kind"), ("Parcelled", 10**10, "oversized")],
)
def test_openings_that_must_not_be(kind: str, vector_bytes: int, reason: str) -> None:
    async def story() -> None:
        form = Form("bytes", "", (vector_bytes,)) if vector_bytes else None
        opening = Opening(kind, 1, vector_bytes, form, 0, 0.0)
        async with pair() as (a, b), traitor(b) as mallory:
            await mallory.greet()
            await mallory.send(encode_head(Chunk(1, 0, Priority.BULK, opening)), b"\x90")
            await until(lambda: Refusal("mallory", reason, 1) in b.refusals)
            await still_talks(a, b)

    asyncio.run(story())


def test_a_frame_beyond_the_largest_ends_its_connection_only() -> None:
    async def story() -> None:
        async with pair() as (a, b), traitor(b) as mallory:
            await mallory.greet()
            await mallory.send(encode_head(Chunk(1, 0, Priority.BULK, None)), bytes(12 * 2**20))
            await still_talks(a, b)
            assert b.endpoint.traffic()["mallory"].received_bytes < 1000

    asyncio.run(story())


def test_one_that_ignores_its_credit() -> None:
    async def story() -> None:
        limits = Limits(unread_bytes=160_000)
        async with pair(limits) as (a, b), traitor(b) as mallory:
            await mallory.greet()
            for number in range(100):
                opening = Opening("Parcelled", 2, 50_000, Form("bytes", "", (50_000,)), 0, 0.0)
                await mallory.send(encode_head(Chunk(1, number, Priority.BULK, opening)), b"\x91\x01", bytes(50_000))
            await until(lambda: "over credit" in b.reasons())
            assert sum(len(lane) for lane in b.endpoint._inbox) <= 3
            for _ in range(len(b.endpoint._inbox[Priority.BULK])):
                await take(b)
            await still_talks(a, b)

    asyncio.run(story())


def test_a_sender_is_who_its_key_says_and_not_who_it_claims() -> None:
    async def story() -> None:
        async with pair() as (a, b), traitor(b) as mallory:
            mallory.socket.routing_id = b"1:a"
            await mallory.greet()
            await mallory.send(*note(0))
            assert (await take(b)).sender == "mallory"
            await still_talks(a, b)

    asyncio.run(story())


def test_a_flood_is_one_report_with_a_count() -> None:
    async def story() -> None:
        reports: list[Refusal] = []
        refusals = Refusals(reports.append)
        for _ in range(1000):
            refusals.note("mallory", "malformed")
        refusals.note("other", "malformed")
        assert reports == [Refusal("mallory", "malformed", 1), Refusal("other", "malformed", 1)]
        refusals.close()
        assert reports[2:] == [Refusal("mallory", "malformed", 999)]

    asyncio.run(story())


def test_a_flood_from_many_addresses_is_bounded() -> None:
    async def story() -> None:
        reports: list[Refusal] = []
        refusals = Refusals(reports.append)
        for number in range(10_000):
            refusals.note(f"10.0.{number // 256}.{number % 256}", "unknown key")
        refusals.close()
        assert len(reports) < 300
        assert sum(report.count for report in reports) == 10_000

    asyncio.run(story())


def test_a_false_server_gets_nothing() -> None:
    async def story() -> None:
        async with opened("a") as a, opened("impostor") as impostor:
            a.endpoint.meet(Peer("b", impostor.address, new_keys().public))
            impostor.endpoint.meet(a.peer)
            await a.endpoint.send("b", Note(1))
            await until(lambda: "handshake" in impostor.reasons())
            assert not a.endpoint.traffic()["b"].connected
            assert a.endpoint.traffic()["b"].sent_bytes == 0

    asyncio.run(story())


def test_a_server_that_answers_garbage_stops_only_itself() -> None:
    async def story() -> None:
        keys, context = new_keys(), zmq.asyncio.Context()
        socket = context.socket(zmq.ROUTER)
        socket.linger, socket.curve_server = 0, True
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        async with pair() as (a, b):
            a.endpoint.meet(Peer("liar", f"tcp://127.0.0.1:{port}", keys.public))
            await a.endpoint.send("liar", Note(1))
            route, _ = await socket.recv_multipart()
            for answer in (b"", b"\xc1", encode_head(Ack(0, 0, 5, (1, 1, 1))), b"\0" * 1000):
                await socket.send_multipart([route, answer])
            await until(lambda: "malformed" in a.reasons())
            await still_talks(a, b)
        socket.close()
        context.term()

    asyncio.run(story())


def test_the_endpoint_of_a_run_never_runs_without_keys_by_accident() -> None:
    async def story() -> None:
        plain = Endpoint("a", None, CODEC)
        async with opened("b") as b:
            try:
                b.endpoint.meet(Peer("a", await plain.open(), b.keys.public))
                plain.meet(b.peer)
                await plain.send("b", Note(1))
                await until(lambda: "handshake" in b.reasons())
            finally:
                await plain.close()

    asyncio.run(story())
