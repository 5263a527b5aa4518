"""Leases are asked for ahead of need; those of an earlier beginning are void."""

from __future__ import annotations

import asyncio

from littoral.learning.leases import Lease, Span
from littoral.worlds.node import Message
from littoral.worlds.processes.control import AskLeases, GrantLeases
from littoral.worlds.processes.leasing import FULL, LOW, Leasing


def lease(number: int) -> Lease:
    return Lease(number, "w", (Span(0, "w", number, number + 1),))


def begun(asked: list[Message]) -> Leasing:
    leasing = Leasing(asked.append)
    leasing.batch = 8
    leasing.begin(3)
    return leasing


async def take(leasing: Leasing) -> Lease | None:
    async with asyncio.timeout(1):
        return await leasing.next()


def test_the_next_lease_is_asked_for_before_it_is_needed() -> None:
    async def story() -> None:
        asked: list[Message] = []
        leasing = begun(asked)
        waiting = asyncio.ensure_future(take(leasing))
        await asyncio.sleep(0)
        assert asked == [AskLeases(3, 8, FULL)]
        leasing.granted(GrantLeases(3, tuple(lease(n) for n in range(FULL)), False))
        assert await waiting == lease(0)
        for number in range(1, FULL - LOW + 1):
            assert asked[1:] == []
            assert await take(leasing) == lease(number)
        assert asked[1:] == [AskLeases(3, 8, FULL - LOW + 1)]

    asyncio.run(story())


def test_no_work_is_told_once_and_more_work_is_noticed() -> None:
    async def story() -> None:
        asked: list[Message] = []
        leasing = begun(asked)
        waiting = asyncio.ensure_future(take(leasing))
        await asyncio.sleep(0)
        leasing.granted(GrantLeases(3, (), True))
        assert await waiting is None
        assert await take(leasing) is None
        assert len(asked) == 1
        leasing.more()
        waiting = asyncio.ensure_future(take(leasing))
        await asyncio.sleep(0)
        leasing.granted(GrantLeases(3, (lease(5),), True))
        assert await waiting == lease(5)

    asyncio.run(story())


def test_a_grant_of_an_earlier_beginning_is_void() -> None:
    async def story() -> None:
        asked: list[Message] = []
        leasing = begun(asked)
        waiting = asyncio.ensure_future(take(leasing))
        await asyncio.sleep(0)
        leasing.begin(4)
        await asyncio.sleep(0)
        leasing.granted(GrantLeases(3, (lease(1),), False))
        leasing.granted(GrantLeases(4, (lease(9),), True))
        assert await waiting == lease(9)
        assert asked[-1] == AskLeases(4, 8, FULL)

    asyncio.run(story())


def test_what_was_put_back_comes_first() -> None:
    async def story() -> None:
        leasing = begun([])
        leasing.granted(GrantLeases(3, (lease(1), lease(2)), False))
        first = await take(leasing)
        assert first is not None
        leasing.put_back(first)
        assert await take(leasing) == first

    asyncio.run(story())
