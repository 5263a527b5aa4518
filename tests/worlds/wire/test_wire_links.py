"""Endpoints over a link that is slow, or breaks again and again."""

from __future__ import annotations

import asyncio
import hashlib
import random

from wiring import Note, Parcelled, Proxy, Side, opened, pair, take, until

from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.frames import Priority


def through(proxy: Proxy, side: Side) -> Peer:
    return Peer(side.endpoint.name, proxy.address, side.keys.public)


def test_small_messages_overtake_a_large_vector_on_a_slow_link() -> None:
    async def story() -> None:
        async with opened("a") as a, opened("b") as b, Proxy(b.address, 12.5e6) as proxy:
            a.endpoint.meet(through(proxy, b))
            b.endpoint.meet(a.peer)
            vector = random.Random(1).randbytes(6_000_000)
            await a.endpoint.send("b", Parcelled(1, vector))
            await until(lambda: proxy.carried > 1_000_000)
            await a.endpoint.send("b", Note(2), priority=Priority.URGENT)
            await a.endpoint.send("b", Note(3), priority=Priority.CONTROL)
            carried = proxy.carried
            first, second = await take(b), await take(b)
            assert {first.message.number, second.message.number} == {2, 3}
            assert proxy.carried - carried < 2_000_000, "they waited behind little of the vector"
            assert (await take(b)).message.vector == vector

    asyncio.run(story())


def test_every_message_once_and_in_order_over_a_link_that_keeps_breaking() -> None:
    async def story() -> None:
        rng = random.Random(7)
        sent: dict[Priority, list[str]] = {priority: [] for priority in Priority}
        async with opened("a") as a, opened("b") as b, Proxy(b.address, 30e6) as proxy:
            a.endpoint.meet(through(proxy, b))
            b.endpoint.meet(a.peer)

            async def produce() -> None:
                for step in range(200):
                    vector = rng.randbytes(rng.choice([0, 100, 30_000, 400_000]))
                    priority = rng.choice(list(Priority))
                    sent[priority].append(fingerprint(step, vector))
                    await a.endpoint.send("b", Parcelled(step, vector), priority=priority, tag=priority)

            async def break_it() -> None:
                for _ in range(12):
                    goal = proxy.carried + rng.randrange(50_000, 1_500_000)
                    await until(lambda goal=goal: proxy.carried > goal)  # type: ignore[misc]
                    proxy.cut()

            async with asyncio.TaskGroup() as group:
                group.create_task(produce())
                breaking = group.create_task(break_it())
                got = [await take(b) for _ in range(200)]
                breaking.cancel()
            for priority in Priority:
                lane = [arrival.message for arrival in got if arrival.tag == priority]
                assert [fingerprint(message.step, message.vector) for message in lane] == sent[priority]
            assert proxy.connections > 5
            assert await a.endpoint.flush(5.0)
            assert b.reasons() <= {"handshake"}, "some broke off while they shook hands"

    asyncio.run(story())


def fingerprint(step: int, vector: bytes) -> str:
    return f"{step} {hashlib.sha256(vector).hexdigest()}"


def test_both_directions_go_on_after_a_cut() -> None:
    async def story() -> None:
        async with opened("a") as a, opened("b") as b, Proxy(b.address) as there, Proxy(a.address) as back:
            a.endpoint.meet(through(there, b))
            b.endpoint.meet(through(back, a))
            for number in range(4):
                await a.endpoint.send("b", Parcelled(number, bytes(2_000_000)))
                await b.endpoint.send("a", Parcelled(number, bytes(2_000_000)))
            await until(lambda: there.carried > 1_000_000 and back.carried > 1_000_000)
            there.severed = back.severed = True
            there.cut()
            back.cut()
            await until(lambda: not a.endpoint.traffic()["b"].connected)
            await asyncio.sleep(0.5)
            there.severed = back.severed = False
            assert [(await take(b)).message.step for _ in range(4)] == [0, 1, 2, 3]
            assert [(await take(a)).message.step for _ in range(4)] == [0, 1, 2, 3]
            assert a.endpoint.traffic()["b"].connected

    asyncio.run(story())


def test_a_peer_that_comes_later_gets_what_was_queued() -> None:
    async def story() -> None:
        async with opened("a") as a, opened("b") as b, Proxy(b.address) as proxy:
            proxy.severed = True
            a.endpoint.meet(through(proxy, b))
            await a.endpoint.send("b", Note(1))
            await asyncio.sleep(0.3)
            b.endpoint.meet(a.peer)
            proxy.severed = False
            assert (await take(b)).message == Note(1)

    asyncio.run(story())


def test_a_loop_that_was_busy_for_long_goes_on() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            for number in range(30):
                await a.endpoint.send("b", Parcelled(number, bytes(300_000)))
            await take(b)
            busy = asyncio.get_running_loop().time() + 2.2
            while asyncio.get_running_loop().time() < busy:
                pass
            assert [(await take(b)).message.step for _ in range(29)] == list(range(1, 30))
            assert a.refusals == b.refusals == []

    asyncio.run(story())


def test_who_is_greeted_connects_back_before_it_has_something_to_say() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            assert not b.endpoint.traffic()["a"].connected
            await a.endpoint.send("b", Note(1))
            await until(lambda: b.endpoint.traffic()["a"].connected)

    asyncio.run(story())
