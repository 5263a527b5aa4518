"""Two real endpoints over loopback: what is promised about order, credit, incarnations and closing."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import numpy as np
import pytest
import torch
from wiring import CODEC, Note, Parcelled, Rich, opened, pair, take, until

from littoral.learning.leases import Lease, Span
from littoral.worlds.wire.endpoint import Endpoint, Limits, Peer, PeerGone
from littoral.worlds.wire.frames import Priority
from littoral.worlds.wire.keys import new_keys


def test_messages_cross_both_ways_with_all_that_belongs_to_them() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            vector = torch.randn(300_000)
            await a.endpoint.send("b", Parcelled(7, vector), tag=42)
            there = await take(b)
            assert (there.sender, there.tag, there.message.step) == ("a", 42, 7)
            assert torch.equal(there.message.vector, vector)
            assert there.size >= vector.nbytes
            assert there.sent_at <= there.arrived_at
            rich = Rich(Lease(1, "w", (Span(0, "s", 0, 4),)), {"x": 1.0}, ((1, "a"),), b"\0", Note(3))
            await b.endpoint.send("a", rich)
            assert (await take(a)).message == rich
            assert a.refusals == b.refusals == []

    asyncio.run(story())


def test_vectors_of_every_size_and_kind_arrive_unchanged() -> None:
    async def story() -> None:
        rng = np.random.default_rng(3)
        vectors = [rng.integers(0, 255, size, np.uint8) for size in (0, 1, 8191, 65536, 1_000_003, 20_000_000)]
        async with pair() as (a, b):
            for number, vector in enumerate(vectors):
                await a.endpoint.send("b", Parcelled(number, vector))
                await a.endpoint.send("b", Parcelled(number, vector.tobytes()))
            for vector in vectors:
                np.testing.assert_array_equal((await take(b)).message.vector, vector)
                assert (await take(b)).message.vector == vector.tobytes()

    asyncio.run(story())


def test_a_received_tensor_may_be_kept_and_changed() -> None:
    async def story() -> torch.Tensor:
        async with pair() as (a, b):
            await a.endpoint.send("b", Parcelled(1, torch.arange(2_000_000)))
            return (await take(b)).message.vector

    kept = asyncio.run(story())
    gc.collect()
    kept += 1
    assert int(kept.sum()) == 2_000_000 * 2_000_001 // 2


def test_large_fields_travel_in_chunks_too() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            rich = Rich(None, {str(number): 0.5 for number in range(200_000)}, (), os.urandom(3_000_000))
            await a.endpoint.send("b", rich)
            assert (await take(b)).message == rich

    asyncio.run(story())


def test_order_within_each_priority() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            for number in range(300):
                size = 200_000 if number % 10 == 0 else 10
                await a.endpoint.send("b", Parcelled(number, bytes(size)), priority=Priority(number % 3))
            got = [(await take(b)).message.step for _ in range(300)]
            for lane in range(3):
                assert [step for step in got if step % 3 == lane] == list(range(lane, 300, 3))

    asyncio.run(story())


def test_many_peers_at_once() -> None:
    async def story() -> None:
        names = [f"n{number}" for number in range(5)]
        async with asyncio.TaskGroup() as group, opened("hub") as hub:
            sides = [await group.create_task(_enter(opened(name))) for name in names]
            for _, side in sides:
                hub.endpoint.meet(side.peer)
                side.endpoint.meet(hub.peer)
                for number in range(20):
                    await side.endpoint.send("hub", Parcelled(number, bytes(100_000)))
            got: dict[str, list[int]] = {name: [] for name in names}
            for _ in range(100):
                arrival = await take(hub)
                got[arrival.sender].append(arrival.message.step)
            assert all(steps == list(range(20)) for steps in got.values())
            for context, _ in sides:
                await context.__aexit__(None, None, None)

    asyncio.run(story())


async def _enter(context):  # type: ignore[no-untyped-def]
    return context, await context.__aenter__()


def test_a_message_to_oneself() -> None:
    async def story() -> None:
        async with opened("a") as a:
            a.endpoint.meet(a.peer)
            await a.endpoint.send("a", Note(1))
            assert (await take(a)).message == Note(1)

    asyncio.run(story())


def test_a_stalled_receiver_stalls_the_sender_and_nothing_grows() -> None:
    async def story() -> None:
        limits = Limits(unread_bytes=4_000_000, queued_bytes=2_000_000)
        async with pair(limits) as (a, b):

            async def produce() -> None:
                for number in range(40):
                    await a.endpoint.send("b", Parcelled(number, bytes(500_000)))

            producer = asyncio.create_task(produce())
            await until(lambda: a.endpoint.traffic()["b"].sent_bytes > 2_000_000)
            seen = -1
            while seen != (seen := a.endpoint.traffic()["b"].sent_bytes):
                await asyncio.sleep(0.3)
            traffic = a.endpoint.traffic()["b"]
            assert not producer.done()
            assert traffic.sent_bytes < 4_000_000
            assert traffic.queued_bytes + traffic.in_flight_bytes < 3_500_000
            await a.endpoint.send("b", Note(1), priority=Priority.CONTROL)
            await until(lambda: b.endpoint._inbox[Priority.CONTROL])  # control passes where bulk is stuck
            assert (await take(b)).message == Note(1)
            assert [(await take(b)).message.step for _ in range(40)] == list(range(40))
            await producer

    asyncio.run(story())


def test_a_message_larger_than_every_credit_still_passes() -> None:
    async def story() -> None:
        async with pair(Limits(unread_bytes=200_000, queued_bytes=100_000)) as (a, b):
            for number in range(3):
                await a.endpoint.send("b", Parcelled(number, bytes(5_000_000)))
            assert [(await take(b)).message.step for _ in range(3)] == [0, 1, 2]

    asyncio.run(story())


def test_too_large_a_message_is_the_senders_mistake() -> None:
    async def story() -> None:
        async with pair(Limits(largest_message=1_000_000)) as (a, _):
            with pytest.raises(ValueError, match="largest_message"):
                await a.endpoint.send("b", Parcelled(1, bytes(2_000_000)))

    asyncio.run(story())


def test_flush_waits_for_acknowledgements() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            assert await a.endpoint.flush(1.0)
            await a.endpoint.send("b", Parcelled(1, bytes(3_000_000)))
            assert await a.endpoint.flush(20.0)
            assert a.endpoint.traffic()["b"].in_flight_bytes == 0
            assert b.endpoint.traffic()["a"].received_bytes > 3_000_000
            b.endpoint.forget("a")
            await a.endpoint.send("b", Note(1))
            assert not await a.endpoint.flush(0.1)

    asyncio.run(story())


def test_traffic_is_measured() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            assert not a.endpoint.traffic()["b"].connected
            for number in range(20):
                await a.endpoint.send("b", Parcelled(number, bytes(4_000_000)))
                await take(b)
            traffic = a.endpoint.traffic()["b"]
            assert traffic.connected
            assert traffic.sent_bytes > 80_000_000
            assert traffic.rate_bytes_per_s is not None and traffic.rate_bytes_per_s > 1e6
            assert traffic.round_trip_s is not None and 0 < traffic.round_trip_s < 1

    asyncio.run(story())


def test_nobody_else_is_spoken_to() -> None:
    async def story() -> None:
        async with pair() as (a, _):
            with pytest.raises(PeerGone, match="'c'"):
                await a.endpoint.send("c", Note(1))

    asyncio.run(story())


def test_a_blocked_sender_learns_that_its_peer_is_gone() -> None:
    async def story() -> None:
        async with pair(Limits(unread_bytes=100_000, queued_bytes=100_000)) as (a, _):

            async def produce() -> None:
                while True:
                    await a.endpoint.send("b", Parcelled(1, bytes(100_000)))

            producers = [asyncio.create_task(produce()) for _ in range(3)]
            await until(lambda: a.endpoint.traffic()["b"].queued_bytes > 100_000)
            a.endpoint.forget("b")
            for producer in producers:
                with pytest.raises(PeerGone):
                    await producer

    asyncio.run(story())


def test_a_new_incarnation_locks_the_old_one_out() -> None:
    async def story() -> None:
        async with pair() as (a, old), opened("b") as new:
            await old.endpoint.send("a", Note(1))
            assert (await take(a)).message == Note(1)
            await old.endpoint.send("a", Note(2))
            await until(lambda: any(a.endpoint._inbox))
            a.endpoint.meet(new.peer)
            new.endpoint.meet(a.peer)
            await old.endpoint.send("a", Note(3))
            await until(lambda: "unknown key" in a.reasons())
            await new.endpoint.send("a", Note(4))
            assert (await take(a)).message == Note(4), "what the old one had sent is dropped with it"
            await a.endpoint.send("b", Note(5))
            assert (await take(new)).message == Note(5)

    asyncio.run(story())


def test_meeting_the_same_peer_again_changes_nothing() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            await a.endpoint.send("b", Note(1))
            a.endpoint.meet(b.peer)
            await a.endpoint.send("b", Note(2))
            assert [(await take(b)).message.number for _ in range(2)] == [1, 2]

    asyncio.run(story())


@pytest.mark.parametrize("pause_s", [0.0, 0.3])
def test_one_that_was_forgotten_and_met_again_with_its_old_key_is_heard_again(pause_s: float) -> None:
    async def story() -> None:
        async with pair() as (a, b):
            await a.endpoint.send("b", Note(1))
            await take(b)
            b.endpoint.forget("a")
            await a.endpoint.send("b", Note(2))
            await asyncio.sleep(pause_s)
            b.endpoint.meet(a.peer)
            await a.endpoint.send("b", Note(3))
            got = (await take(b)).message.number
            assert got in (2, 3)
            if got == 2:
                assert (await take(b)).message.number == 3
            await b.endpoint.send("a", Note(4))
            assert (await take(a)).message == Note(4)

    asyncio.run(story())


def test_two_peers_with_one_key_are_a_mistake() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            with pytest.raises(ValueError, match="keys of its own"):
                a.endpoint.meet(Peer("c", b.address, b.keys.public))

    asyncio.run(story())


def test_meeting_before_opening_and_one_sided_meeting() -> None:
    async def story() -> None:
        keys = new_keys()
        early = Endpoint("early", keys, CODEC)
        async with opened("b") as b:
            early.meet(b.peer)
            try:
                address = await early.open()
                await early.send("b", Note(1))  # b does not know us yet, and lets us in once it does
                await until(lambda: "unknown key" in b.reasons())
                b.endpoint.meet(Peer("early", address, keys.public))
                assert (await take(b)).message == Note(1)
            finally:
                await early.close()

    asyncio.run(story())


def test_one_that_may_come_before_its_address_is_known() -> None:
    async def story() -> None:
        async with opened("a") as a, opened("b") as b:
            a.endpoint.meet(Peer("b", "", b.keys.public))
            b.endpoint.meet(a.peer)
            await b.endpoint.send("a", Note(1))
            assert (await take(a)).message == Note(1)
            with pytest.raises(PeerGone):
                await a.endpoint.send("b", Note(2))
            await b.endpoint.send("a", Note(3))
            await until(lambda: any(a.endpoint._inbox))
            a.endpoint.meet(b.peer)
            assert (await take(a)).message == Note(3), "learning its address is no new incarnation"
            await a.endpoint.send("b", Note(4))
            assert (await take(b)).message == Note(4)
            assert a.refusals == b.refusals == []

    asyncio.run(story())


def test_posting_never_waits_and_drops_what_is_for_nobody() -> None:
    async def story() -> None:
        async with pair(Limits(queued_bytes=1024)) as (a, b):
            for number in range(200):
                a.endpoint.post("b", Note(number))
            a.endpoint.post("nobody", Note(1))
            assert [(await take(b)).message.number for _ in range(200)] == list(range(200))

    asyncio.run(story())


def test_a_host_that_is_not_ours_is_named() -> None:
    async def story() -> None:
        with pytest.raises(OSError, match=r"192\.0\.2\.1"):
            await Endpoint("a", new_keys(), CODEC).open("192.0.2.1")

    asyncio.run(story())


def test_receivers_are_served_in_turn_and_may_be_cancelled() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            readers = [asyncio.create_task(take(b)) for _ in range(3)]
            await asyncio.sleep(0)
            readers[0].cancel()
            await a.endpoint.send("b", Note(1))
            await a.endpoint.send("b", Note(2))
            numbers = {(await reader).message.number for reader in readers[1:]}
            assert numbers == {1, 2}

    asyncio.run(story())


def test_closing_leaves_nothing_and_may_be_done_twice() -> None:
    async def story() -> None:
        async with pair() as (a, b):
            await a.endpoint.send("b", Parcelled(1, bytes(3_000_000)))
            await take(b)
            await b.endpoint.send("a", Note(2))
            waiting = asyncio.create_task(b.endpoint.receive())
            await a.endpoint.close()
            await a.endpoint.close()
            await b.endpoint.close()
            with pytest.raises(PeerGone):
                await waiting
            with pytest.raises(PeerGone):
                await a.endpoint.send("b", Note(1))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())  # the first time starts pyzmq's own collector thread, which serves the whole process
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))
    for _ in range(3):
        asyncio.run(story())
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


def test_closing_while_connections_come_and_go() -> None:
    async def story(pause_s: float) -> None:
        async with pair() as (a, b), opened("c") as c:
            a.endpoint.meet(c.peer)  # which does not know us, and refuses us again and again
            for target in ("b", "c"):
                await a.endpoint.send(target, Parcelled(1, bytes(10_000)))
            await b.endpoint.send("a", Note(2))
            await asyncio.sleep(pause_s)

    for step in range(20):
        asyncio.run(story(0.002 * step))


def test_plain_endpoints_work_alike() -> None:
    async def story() -> None:
        a, b = Endpoint("a", None, CODEC), Endpoint("b", None, CODEC)
        try:
            address_a, address_b = await a.open(), await b.open()
            a.meet(Peer("b", address_b, b""))
            b.meet(Peer("a", address_a, b""))
            await a.send("b", Parcelled(1, np.arange(100_000)))
            arrival = await b.receive()
            assert (arrival.sender, int(arrival.message.vector.sum())) == ("a", 4_999_950_000)
        finally:
            await a.close()
            await b.close()

    asyncio.run(story())
