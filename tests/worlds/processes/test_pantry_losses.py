"""Requests get lost, blocks arrive damaged, stores die: a pantry asks again, neither too early nor too much."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from depot import SPANS, Wire, assert_true, open_desk, open_pantry, story, supplied, until

from littoral.errors import RunFailed
from littoral.worlds.node import Message, PeerLost
from littoral.worlds.processes.pantry import Patience
from littoral.worlds.processes.store import Block, WantBlocks
from littoral.worlds.wire.endpoint import PeerGone


@story
async def test_lost_requests_are_asked_again(tmp_path: Path) -> None:
    """The first two wants and every third block vanish."""
    passed = 0

    def lossy(message: Message) -> Message | None:
        nonlocal passed
        passed += 1
        return None if passed % 3 == 0 else message

    async with supplied(tmp_path, lossy, patience_s=0.02) as (pantry, wire):
        wire.cut = True
        fetch = asyncio.create_task(pantry.ensure(SPANS))
        await until(lambda: len(wire.wants) == 2)
        wire.cut = False
        await fetch
    assert_true(pantry, SPANS)
    assert pantry.reminders >= 2


@story
async def test_a_store_that_comes_back_is_asked_at_once(tmp_path: Path) -> None:
    wire = Wire()
    pantry = open_pantry(wire.ask, tmp_path)  # on its own it would not ask again during this test
    async with wire.joining(None, pantry):
        fetch = asyncio.create_task(pantry.prefetch("w-1"))
        await until(lambda: wire.wants and wire.to_store.empty())
    async with wire.joining(open_desk(wire.answer), pantry):
        pantry.resume()
        await fetch
    assert pantry.held("w-1") == (16, 16) and pantry.reminders == 0


@story
async def test_a_store_that_cannot_be_reached_is_a_lost_request(tmp_path: Path) -> None:
    wire, refusals = Wire(), [PeerLost("store"), PeerGone("store"), ConnectionRefusedError("store")]
    reminders: list[int] = []

    async def ask(target: str, message: Message) -> None:
        reminders.append(pantry.reminders)
        if refusals:
            raise refusals.pop()
        await wire.ask(target, message)

    pantry = open_pantry(ask, tmp_path, patience_s=0.01)
    async with wire.joining(open_desk(wire.answer), pantry):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)
    assert reminders[:4] == [0, 0, 0, 0] and not refusals  # it was known that nothing had left


@story
async def test_a_cancelled_wait_leaves_nothing_half_asked(tmp_path: Path) -> None:
    wire, stuck = Wire(), [True]

    async def ask(target: str, message: Message) -> None:
        if stuck:
            stuck.clear()
            await asyncio.Event().wait()
        await wire.ask(target, message)

    pantry = open_pantry(ask, tmp_path)
    first = asyncio.create_task(pantry.ensure(SPANS))
    await until(lambda: not stuck)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    async with wire.joining(open_desk(wire.answer), pantry):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)


@story
async def test_a_needless_reminder_costs_little(tmp_path: Path) -> None:
    """A link so slow that patience ends before the first block is here."""
    wire = Wire()
    pantry = open_pantry(wire.ask, tmp_path, patience_s=0.05)
    fetch = asyncio.create_task(pantry.prefetch("w-1"))
    await until(lambda: pantry.reminders, 0.001)
    async with wire.joining(open_desk(wire.answer), pantry):
        await fetch
    assert wire.blocks <= 16 + 2 * pantry.reminders


@story
async def test_a_reminder_does_not_ask_for_all_at_once(tmp_path: Path) -> None:
    """The store dies when blocks have come fast for a while and many are under way."""
    wire = Wire()
    pantry = open_pantry(wire.ask, tmp_path, per_block=5, patience_s=0.05)
    fetch = asyncio.create_task(pantry.prefetch("w-1"))
    async with wire.joining(open_desk(wire.answer), pantry):
        await until(lambda: pantry.held("w-1")[0] >= 60)
    before = pantry.reminders
    wire.wants.clear()
    await until(lambda: pantry.reminders > before, 0.001)
    reminder = wire.wants[-1]
    assert isinstance(reminder, WantBlocks) and len(reminder.numbers) == 2
    async with wire.joining(open_desk(wire.answer), pantry):
        await fetch
    assert pantry.held("w-1") == (160, 160)


@story
async def test_damaged_blocks_are_asked_again_and_counted(tmp_path: Path) -> None:
    to_spoil = 3

    def spoil(message: Message) -> Message:
        nonlocal to_spoil
        if isinstance(message, Block) and to_spoil:
            to_spoil -= 1
            return msgspec.structs.replace(message, vector=bytes(message.vector[:-1]) + b"\xff")
        return message

    async with supplied(tmp_path, spoil) as (pantry, _):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)
    assert pantry.spoiled == 3


@story
async def test_a_store_that_only_sends_rubbish_is_given_up(tmp_path: Path) -> None:
    def spoil(message: Message) -> Message:
        return msgspec.structs.replace(message, vector=None) if isinstance(message, Block) else message

    async with supplied(tmp_path, spoil) as (pantry, _):
        with pytest.raises(RunFailed, match="spoiled 5 times"):
            await pantry.ensure(SPANS[2:])


def test_patience_follows_the_link() -> None:
    patience = Patience(2.0)
    patience.begin(100.0)
    assert patience.left(101.0) == 1.0
    patience.reminded(102.0)
    assert patience.left(102.0) == 4.0
    patience.heard(104.0)  # a block takes four seconds here: the reminder was needless
    assert patience.left(104.0) == 12.0
    for _ in range(9):
        patience.reminded(120.0)
    assert patience.left(120.0) == 30.0
    patience.heard(120.0)
    patience.heard(120.1)
    assert patience.left(120.1) == 2.0
