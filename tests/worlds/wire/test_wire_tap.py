"""No news is missed on a ZeroMQ socket, whatever is asked of it in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from littoral.worlds.wire.tap import Tap


@contextmanager
def connected() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    context = zmq.Context()
    near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    far.connect(f"tcp://127.0.0.1:{near.bind_to_random_port('tcp://127.0.0.1')}")
    try:
        yield near, far
    finally:
        context.destroy(linger=0)


def test_asking_whether_one_may_send_does_not_swallow_an_arrival() -> None:
    async def story(near: zmq.Socket[bytes], far: zmq.Socket[bytes]) -> None:
        got: list[bytes] = []
        tap = Tap(near, lambda frames: got.append(frames[0].bytes))
        await asyncio.sleep(0.05)
        for number in range(5):
            far.send(bytes([number]))
            time.sleep(0.02)  # it arrives while the loop is elsewhere
            assert tap.writable
            async with asyncio.timeout(5):
                while len(got) <= number:
                    await asyncio.sleep(0.01)
        tap.close()

    with connected() as (near, far):
        asyncio.run(story(near, far))


def test_a_message_that_breaks_its_reader_does_not_keep_the_next_ones() -> None:
    async def story(near: zmq.Socket[bytes], far: zmq.Socket[bytes]) -> None:
        got: list[bytes] = []
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["exception"]))

        def take(frames: list[zmq.Frame]) -> None:
            if frames[0].bytes == b"bad":
                raise KeyError("bad")
            got.append(frames[0].bytes)

        for message in (b"one", b"bad", b"two", b"three"):
            far.send(message)
        time.sleep(0.05)
        tap = Tap(near, take)  # type: ignore[arg-type]
        async with asyncio.timeout(5):
            while len(got) < 3:
                await asyncio.sleep(0.01)
        assert got == [b"one", b"two", b"three"]
        assert len(complaints) == 1
        tap.close()

    with connected() as (near, far):
        asyncio.run(story(near, far))


def test_many_messages_leave_others_on_the_loop_their_turn() -> None:
    async def story(near: zmq.Socket[bytes], far: zmq.Socket[bytes]) -> None:
        got: list[bytes] = []
        tap = Tap(near, lambda frames: got.append(frames[0].bytes))
        for _ in range(500):
            far.send(b"x")
        time.sleep(0.1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(got) < 500
        async with asyncio.timeout(5):
            while len(got) < 500:
                await asyncio.sleep(0)
        tap.close()

    with connected() as (near, far):
        asyncio.run(story(near, far))
