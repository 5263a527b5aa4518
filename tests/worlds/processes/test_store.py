"""A store's desk: what it answers, what it refuses, and several who ask at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from depot import MODEL, SHARDS, assert_true, open_desk, open_pantry, story

from littoral.learning.cutting import block_count, samples_per_block
from littoral.learning.leases import Span
from littoral.worlds.node import Message
from littoral.worlds.processes.pantry import Pantry
from littoral.worlds.processes.store import Block, NoSuchBlock, WantBlocks, WantModel


async def answers(want: Message) -> list[Message]:
    """What a desk answers."""
    said: list[Message] = []

    async def collect(target: str, message: Message) -> None:
        assert target == "w-9"
        said.append(message)

    await open_desk(collect).take("w-9", want)
    return said


@story
async def test_blocks_come_in_the_order_they_were_wanted() -> None:
    said = await answers(WantBlocks("", "w-1", 100, (5, 0, 7)))
    assert [answer.number for answer in said if isinstance(answer, Block)] == [5, 0, 7]


@pytest.mark.parametrize(
    ("want", "wrong"),
    [
        (WantBlocks("", "nobody", 100, (0, 1)), (0, 1)),
        (WantBlocks("", "w-1", 100, (0, 8, -1)), (8, -1)),
        (WantBlocks("", "w-1", 0, (0,)), (0,)),
        (WantBlocks("", "w-1", -5, (0,)), (0,)),
        (WantBlocks("", "w-1", 2**40, (0,)), (0,)),
    ],
)
@story
async def test_what_cannot_be_sent_is_said(want: WantBlocks, wrong: tuple[int, ...]) -> None:
    refusal, *rest = await answers(want)
    assert isinstance(refusal, NoSuchBlock) and refusal.numbers == wrong and refusal.reason
    assert len(rest) == len(want.numbers) - len(wrong)


@story
async def test_a_desk_ignores_what_is_not_for_it() -> None:
    assert await answers(NoSuchBlock("w-1", (1,), "?")) == []
    [model] = await answers(WantModel())
    assert model.size == len(MODEL) * 4 + WantModel().size


@story
async def test_a_block_wanted_twice_before_it_left_is_sent_once() -> None:
    sent: list[int] = []
    gate = asyncio.Event()

    async def slow(target: str, message: Message) -> None:
        await gate.wait()
        assert isinstance(message, Block)
        sent.append(message.number)

    desk = open_desk(slow)
    async with asyncio.TaskGroup() as group:
        group.create_task(desk.take("w-1", WantBlocks("", "w-1", 100, (0, 1, 2))))
        group.create_task(desk.take("w-1", WantBlocks("", "w-1", 100, (1, 2, 3))))
        group.create_task(desk.take("w-2", WantBlocks("", "w-1", 100, (1,))))
        await asyncio.sleep(0.05)
        gate.set()
    assert sorted(sent) == [0, 1, 1, 2, 3]
    await desk.take("w-1", WantBlocks("", "w-1", 100, (1,)))  # sent before, lost perhaps: sent again
    assert sent[-1] == 1


@story
async def test_several_workers_share_nothing_but_the_data(tmp_path: Path) -> None:
    """Work moves between workers: each fetches of any shard what it needs."""
    pantries: dict[str, Pantry] = {}
    per_block = samples_per_block(65)
    assert block_count(800, per_block) == 1

    async def answer(target: str, message: Message) -> None:
        await pantries[target].take("store", message)

    desk = open_desk(answer)
    async with asyncio.TaskGroup() as group:
        for name in SHARDS:

            async def ask(target: str, message: Message, name: str = name) -> None:
                group.create_task(desk.take(name, message))

            pantries[name] = open_pantry(ask, tmp_path / name, per_block=per_block)
            group.create_task(pantries[name].ensure([Span(0, origin, 0, 30) for origin in SHARDS]))
    for pantry in pantries.values():
        assert_true(pantry, [Span(0, "w-2", 0, 30), Span(0, "w-1", 0, 30)])
