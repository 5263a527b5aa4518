"""Answers wait for something to travel with, and nobody waits for them in vain: here they would wait for good."""

from __future__ import annotations

import asyncio

import pytest
from wiring import Note, Parcelled, pair, take

from littoral.worlds.wire import desk
from littoral.worlds.wire.endpoint import Limits
from littoral.worlds.wire.frames import Priority


@pytest.fixture(autouse=True)
def _held_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "HOLD_S", 1e6)


def test_an_answer_travels_with_the_next_message_the_other_way() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            for number in range(5):
                await a.endpoint.send("b", Note(number))
                await take(b)
                await b.endpoint.send("a", Note(number))
                await take(a)
                assert a.endpoint.traffic()["b"].in_flight_bytes == 0
            assert b.endpoint.traffic()["a"].in_flight_bytes > 0  # its last message had no answer yet

    asyncio.run(story())


@pytest.mark.parametrize("size", [1_000, 400_000, 8_000_000])
def test_a_stream_in_one_direction_asks_before_it_has_to_wait(size: int) -> None:
    async def story() -> None:
        async with pair(Limits(unread_bytes=4_000_000, queued_bytes=2_000_000)) as (a, b):

            async def send() -> None:
                for step in range(40):
                    await a.endpoint.send("b", Parcelled(step, bytes(size)))

            sending = asyncio.ensure_future(send())
            for step in range(40):
                assert (await take(b)).message.step == step
            await sending

    asyncio.run(story())


def test_flush_asks_for_what_is_held_back() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            for number in range(3):
                await a.endpoint.send("b", Note(number))
                await take(b)
            assert a.endpoint.traffic()["b"].in_flight_bytes > 0
            assert await a.endpoint.flush(10.0)
            assert a.endpoint.traffic()["b"].in_flight_bytes == 0

    asyncio.run(story())


def test_control_messages_do_not_run_out_of_credit() -> None:
    async def story() -> None:
        async with pair(Limits(unread_bytes=64_000)) as (a, b):
            for number in range(500):
                await a.endpoint.send("b", Note(number), priority=Priority.CONTROL)
                assert (await take(b)).message.number == number

    asyncio.run(story())
