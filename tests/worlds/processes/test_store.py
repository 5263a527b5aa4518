"""A store and its workers: the samples that arrive are the data set's own, whatever gets lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from littoral.errors import RunFailed
from littoral.learning.blocks import Header, Packing, block_count, samples_per_block
from littoral.learning.learner import Learner, Shards, named_seed
from littoral.learning.leases import Span
from littoral.learning.mathematics import RealMathematics, shard_indices
from littoral.learning.task import Dataset, load_task
from littoral.planning.plan import Plan, Prediction, Worker
from littoral.worlds.node import Message, PeerLost
from littoral.worlds.processes.pantry import Pantry, Patience, edition
from littoral.worlds.processes.store import KINDS, Block, NoSuchBlock, StoreDesk, WantBlocks, WantModel
from littoral.worlds.wire.endpoint import Endpoint, Peer, PeerGone
from littoral.worlds.wire.frames import Codec
from littoral.worlds.wire.keys import new_keys

torch.set_num_threads(1)
TASK = load_task("littoral.tasks.digits", {})
NOTHING = Prediction(time_s=0, epoch_s=0, bytes_sent=0, wan_bytes=0, cost_usd=0)
SHARDS = {"w-1": 800, "w-2": 600, "w-3": 37}
PLAN = Plan(
    planner="test",
    strategy="allreduce",
    workers=tuple(
        Worker(name=name, device=name, shard=size, batch=32, samples_per_s=1, store="store")
        for name, size in SHARDS.items()
    ),
    epochs=2,
    predicted=NOTHING,
)
SEED = 5
PER_BLOCK = 50
SPANS = [Span(1, "w-1", 90, 130), Span(0, "w-2", 0, 600), Span(0, "w-3", 30, 37)]


@dataclass
class Wire:
    """Two queues between a store and a worker, and hands that meddle with what passes."""

    meddle: Callable[[Message], Message | None] = lambda message: message
    cut: bool = False
    wants: list[Message] = field(default_factory=list)
    blocks: int = 0
    to_store: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    to_worker: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    async def ask(self, target: str, message: Message) -> None:
        assert target == "store"
        self.wants.append(message)
        if not self.cut:
            self.to_store.put_nowait(message)

    async def answer(self, target: str, message: Message) -> None:
        assert target == "w-1"
        await asyncio.sleep(0)
        changed = self.meddle(message)
        if changed is not None and not self.cut:
            self.blocks += isinstance(message, Block)
            self.to_worker.put_nowait(changed)

    @asynccontextmanager
    async def joining(self, desk: StoreDesk | None, pantry: Pantry) -> Any:
        async def serve() -> None:
            while True:
                message = await self.to_store.get()
                if desk is not None:
                    await desk.take("w-1", message)

        async def deliver() -> None:
            while True:
                await pantry.take("store", await self.to_worker.get())

        tasks = [asyncio.create_task(serve()), asyncio.create_task(deliver())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            gathered = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in gathered), gathered


def desk(wire: Wire) -> StoreDesk:
    data = TASK.data()
    return StoreDesk(data, shard_indices(PLAN, SEED, data), torch.arange(1000, dtype=torch.float32), wire.answer)


def pantry(wire: Wire, folder: Path | None, **options: Any) -> Pantry:
    settings = {"per_block": PER_BLOCK, "patience_s": 1000.0} | options  # nothing is asked twice unless a test wants it
    return Pantry(folder, SHARDS, wire.ask, "store", seed=SEED, **settings)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


def true_batch(spans: list[Span]) -> tuple[torch.Tensor, torch.Tensor]:
    data = TASK.data()
    return Shards(data, shard_indices(PLAN, SEED, data), SEED).batch(spans)


def assert_true(pantry: Pantry, spans: list[Span]) -> None:
    for mine, theirs in zip(pantry.batch(spans), true_batch(spans), strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


# -- the samples ---------------------------------------------------------------------------------------------------


def test_batches_are_the_data_sets_own_bit_for_bit(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
            assert_true(mine, SPANS)
            assert_true(mine, SPANS[:1])

    run(story)


def test_blocks_of_digits_travel_at_their_footprint(tmp_path: Path) -> None:
    async def story() -> None:
        wire, told = Wire(), []
        mine = pantry(wire, tmp_path, clock=lambda: 7.0, fetched=lambda size, start: told.append((size, start)))
        async with wire.joining(desk(wire), mine):
            await mine.prefetch("w-1")
        expected = SHARDS["w-1"] * TASK.footprint().sample_bytes + wire.blocks * 4 * 17
        assert mine.bytes_received == expected and told == [(expected, 7.0)]

    run(story)


def test_floats_that_are_not_bytes_come_too(tmp_path: Path) -> None:
    async def story() -> None:
        data = load_task("littoral.tasks.synthetic", {"samples": 100, "test_samples": 10}).data()
        wire, indices = Wire(), {"w-1": torch.arange(100).numpy()[::-1]}
        mine = Pantry(tmp_path, {"w-1": 100}, wire.ask, "store", seed=SEED, per_block=16)
        async with wire.joining(StoreDesk(data, indices, torch.zeros(3), wire.answer), mine):
            await mine.prefetch("w-1")
        span = [Span(0, "w-1", 0, 100)]
        for got, wanted in zip(mine.batch(span), Shards(data, indices, SEED).batch(span), strict=True):
            assert torch.equal(got, wanted)

    run(story)


def test_a_learner_learns_the_same_from_a_pantry(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS[:1])
        local = RealMathematics(TASK, PLAN, SEED).worker("w-1")
        remote = Learner(TASK, mine, named_seed(SEED, "model") % 2**63)
        ours, theirs = remote.gradient(SPANS[:1]), local.gradient(SPANS[:1])
        assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]

    run(story)


def test_only_the_blocks_of_the_spans_are_fetched(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.ensure([Span(0, "w-1", 0, 3)])
        assert wire.blocks == mine.held("w-1")[0] <= 3
        with pytest.raises(LookupError, match="ensure"):
            mine.batch([Span(0, "w-1", 0, 800)])

    run(story)


def test_progress_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        wire, steps = Wire(), []
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.prefetch("w-1", lambda have, total: steps.append((have, total)))
        assert steps[0] == (0, 16) and steps[-1] == (16, 16) and steps == sorted(steps)

    run(story)


def test_no_more_is_asked_for_than_can_be_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path, per_block=5)  # 160 blocks
        async with wire.joining(desk(wire), mine):
            await mine.prefetch("w-1")
        sizes = [len(want.numbers) for want in wire.wants if isinstance(want, WantBlocks)]
        assert max(sizes) <= 16 and sum(sizes) == 160 == wire.blocks

    run(story)


def test_the_base_model_comes_and_stays(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            assert torch.equal(await mine.model(1000), torch.arange(1000, dtype=torch.float32))
        again = pantry(wire, tmp_path)
        assert torch.equal(await again.model(1000), torch.arange(1000, dtype=torch.float32))
        assert again.bytes_received == 0
        with pytest.raises(RunFailed, match="1000 elements"):
            await again.model(999)

    run(story)


# -- losses --------------------------------------------------------------------------------------------------------


def test_a_killed_worker_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        first = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), first):
            fetch = asyncio.create_task(first.prefetch("w-1"))
            while first.held("w-1")[0] < 7:
                await asyncio.sleep(0)
            fetch.cancel()
            await asyncio.gather(fetch, return_exceptions=True)
        had = first.held("w-1")[0]
        wire = Wire()
        second = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), second):
            await second.prefetch("w-1")
        assert 7 <= had < 16 and wire.blocks == 16 - had
        assert_true(second, SPANS[:1])

    run(story)


def test_a_worker_that_has_all_needs_no_store(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        first = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), first):
            await first.prefetch("w-2")
        alone = pantry(Wire(cut=True), tmp_path)
        await alone.ensure(SPANS[1:2])
        assert_true(alone, SPANS[1:2])
        assert alone.bytes_received == 0

    run(story)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign", "draft"])
def test_spoiled_files_are_fetched_again(tmp_path: Path, damage: str) -> None:
    async def story() -> None:
        wire = Wire()
        first = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), first):
            await first.prefetch("w-3")
        [path] = tmp_path.glob("*/*.block")
        raw = bytearray(path.read_bytes())
        raw[-3] ^= 4
        contents = {
            "flip": bytes(raw),
            "truncate": bytes(raw[:-9]),
            "empty": b"",
            "foreign": b"hello, this is no block",
        }
        if damage == "draft":
            path.rename(path.with_suffix(".draft"))
        else:
            path.write_bytes(contents[damage])
        wire = Wire()
        second = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), second):
            await second.ensure(SPANS[2:])
        assert_true(second, SPANS[2:])
        assert wire.blocks == 1 and not list(tmp_path.glob("*/*.draft"))
        assert second.spoiled == (damage in ("flip", "truncate"))

    run(story)


def test_blocks_of_another_edition_are_not_taken(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        for name in ("a", "b"):
            mine = pantry(wire, tmp_path, edition=name)
            async with wire.joining(desk(wire), mine):
                await mine.prefetch("w-3")
        assert wire.blocks == 2

    run(story)
    assert edition("digits", {}, PLAN, 0) != edition("digits", {}, PLAN, 1) != edition("digits", {"seed": 1}, PLAN, 1)


def test_lost_requests_are_asked_again(tmp_path: Path) -> None:
    """The first two wants and every third block vanish."""

    async def story() -> None:
        passed = [0]

        def lossy(message: Message) -> Message | None:
            passed[0] += 1
            return None if passed[0] % 3 == 0 else message

        wire = Wire(meddle=lossy, cut=True)
        mine = pantry(wire, tmp_path, patience_s=0.02)
        async with wire.joining(desk(wire), mine):
            fetch = asyncio.create_task(mine.ensure(SPANS))
            while len(wire.wants) < 2:
                await asyncio.sleep(0)
            wire.cut = False
            await fetch
        assert_true(mine, SPANS)
        assert mine.reminders >= 2

    run(story)


def test_a_store_that_comes_back_is_asked_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path, patience_s=1000.0)  # on its own it would not ask again during this test
        async with wire.joining(None, mine):
            fetch = asyncio.create_task(mine.prefetch("w-1"))
            while not wire.wants:
                await asyncio.sleep(0)
        async with wire.joining(desk(wire), mine):
            mine.resume()
            await fetch
        assert mine.held("w-1") == (16, 16) and mine.reminders == 0

    run(story)


def test_a_store_that_cannot_be_reached_is_a_lost_request(tmp_path: Path) -> None:
    async def story() -> None:
        wire, refusals = Wire(), [PeerLost("store"), PeerGone("store"), ConnectionRefusedError("store")]

        async def ask(target: str, message: Message) -> None:
            if refusals:
                raise refusals.pop()
            await wire.ask(target, message)

        mine = Pantry(tmp_path, SHARDS, ask, "store", seed=SEED, per_block=PER_BLOCK, patience_s=0.01)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)
        assert mine.reminders == 0 and not refusals  # it was known that nothing had left

    run(story)


def test_a_cancelled_wait_leaves_nothing_half_asked(tmp_path: Path) -> None:
    async def story() -> None:
        wire, stuck = Wire(), [True]

        async def ask(target: str, message: Message) -> None:
            if stuck.pop() if stuck else False:
                await asyncio.Event().wait()
            await wire.ask(target, message)

        mine = Pantry(tmp_path, SHARDS, ask, "store", seed=SEED, per_block=PER_BLOCK, patience_s=1000.0)
        first = asyncio.create_task(mine.ensure(SPANS))
        while stuck:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)

    run(story)


def test_a_needless_reminder_costs_little(tmp_path: Path) -> None:
    """A link so slow that patience ends before the first block is here."""

    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path, patience_s=0.05)
        fetch = asyncio.create_task(mine.prefetch("w-1"))
        while not mine.reminders:
            await asyncio.sleep(0.001)
        async with wire.joining(desk(wire), mine):
            await fetch
        assert wire.blocks <= 16 + 2 * mine.reminders

    run(story)


def test_a_reminder_does_not_ask_for_all_at_once(tmp_path: Path) -> None:
    """The store dies when blocks have come fast for a while and many are under way."""

    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path, per_block=5, patience_s=0.05)
        fetch = asyncio.create_task(mine.prefetch("w-1"))
        async with wire.joining(desk(wire), mine):
            while mine.held("w-1")[0] < 60:
                await asyncio.sleep(0)
        before = mine.reminders
        wire.wants.clear()
        while mine.reminders == before:
            await asyncio.sleep(0.001)
        reminder = wire.wants[-1]
        assert isinstance(reminder, WantBlocks) and len(reminder.numbers) == 2
        async with wire.joining(desk(wire), mine):
            await fetch
        assert mine.held("w-1") == (160, 160)

    run(story)


def test_damaged_blocks_are_asked_again_and_counted(tmp_path: Path) -> None:
    async def story() -> None:
        spoils = [3]

        def spoil(message: Message) -> Message:
            if isinstance(message, Block) and spoils[0]:
                spoils[0] -= 1
                return msgspec.structs.replace(message, vector=bytes(message.vector[:-1]) + b"\xff")
            return message

        wire = Wire(meddle=spoil)
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)
        assert mine.spoiled == 3

    run(story)


def test_a_store_that_only_sends_rubbish_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        def spoil(message: Message) -> Message:
            return msgspec.structs.replace(message, vector=None) if isinstance(message, Block) else message

        wire = Wire(meddle=spoil)
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            with pytest.raises(RunFailed, match="spoiled 5 times"):
                await mine.ensure(SPANS[2:])

    run(story)


def test_what_was_not_asked_for_does_no_harm(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path)
        async with wire.joining(desk(wire), mine):
            await mine.prefetch("w-3")
            await desk(wire).take("w-1", WantBlocks("", "w-3", PER_BLOCK, (0,)))  # twice
            await desk(wire).take("w-1", WantBlocks("", "w-2", 7, (0,)))  # cut otherwise
            while not wire.to_worker.empty():
                await asyncio.sleep(0)
        packing = Packing("<f4", (1,), "<f4")
        await mine.take("a stranger", Block("w-3", 0, Header(packing, packing, b""), b""))
        await mine.take("store", Block("nobody", 3, Header(packing, packing, b""), b"12345678"))
        assert mine.held("w-3") == (1, 1) and mine.held("w-2") == (0, 12) and mine.spoiled == 2

    run(story)


def test_a_full_disk_only_costs_the_next_life(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path / "folder")
        async with wire.joining(desk(wire), mine):
            await mine.model(1000)
            for path in tmp_path.glob("folder/*/*"):
                path.unlink()
            next(tmp_path.glob("folder/*")).rmdir()  # no file can be written there any more
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)

    run(story)


def test_a_folder_that_cannot_be_made_only_costs_the_next_life(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, tmp_path / "file" / "folder")
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)

    run(story)


def test_a_pantry_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def story() -> None:
        wire = Wire()
        mine = pantry(wire, None)
        async with wire.joining(desk(wire), mine):
            await mine.ensure(SPANS)
        assert_true(mine, SPANS)

    run(story)
    assert not list(tmp_path.iterdir())


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


# -- over real sockets ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def endpoint(name: str, handle: Callable[[str, Message], Coroutine[Any, Any, None]]) -> Any:
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


def test_a_store_killed_half_way_and_started_again_over_real_sockets(tmp_path: Path) -> None:
    async def story() -> None:
        steps: list[int] = []

        async def take(sender: str, message: Message) -> None:
            await mine.take(sender, message)

        async def serve(sender: str, message: Message) -> None:
            await desks[-1].take(sender, message)

        desks: list[StoreDesk] = []
        data = TASK.data()
        async with endpoint("w-1", take) as (worker, itself):
            mine = Pantry(tmp_path, SHARDS, worker.send, "store", seed=SEED, per_block=10, patience_s=1000.0)
            fetch = asyncio.create_task(mine.prefetch("w-1", lambda have, total: steps.append(have)))
            for enough in (20, 80):
                async with endpoint("store", serve) as (store, peer):
                    desks.append(StoreDesk(data, shard_indices(PLAN, SEED, data), torch.zeros(1), store.send))
                    store.meet(itself)
                    worker.meet(peer)
                    mine.resume()
                    while not steps or steps[-1] < enough:
                        await asyncio.sleep(0.001)
            await fetch
        assert_true(mine, SPANS[:1])
        assert mine.spoiled == 0 and mine.bytes_received < 1.5 * 800 * 73

    run(story)


# -- the desk ------------------------------------------------------------------------------------------------------


def asked(*wants: Message) -> list[Message]:
    """What a desk answers."""
    answers: list[Message] = []

    async def collect(target: str, message: Message) -> None:
        assert target == "w-9"
        answers.append(message)

    async def story() -> None:
        data = TASK.data()
        counter = StoreDesk(data, shard_indices(PLAN, SEED, data), torch.zeros(10), collect)
        for want in wants:
            await counter.take("w-9", want)

    run(story)
    return answers


def test_blocks_come_in_the_order_they_were_wanted() -> None:
    answers = asked(WantBlocks("", "w-1", 100, (5, 0, 7)))
    assert [answer.number for answer in answers if isinstance(answer, Block)] == [5, 0, 7]


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
def test_what_cannot_be_sent_is_said(want: WantBlocks, wrong: tuple[int, ...]) -> None:
    refusal, *rest = asked(want)
    assert isinstance(refusal, NoSuchBlock) and refusal.numbers == wrong and refusal.reason
    assert len(rest) == len(want.numbers) - len(wrong)


def test_a_worker_learns_that_a_block_does_not_exist(tmp_path: Path) -> None:
    async def story() -> None:
        wire = Wire()
        mine = Pantry(tmp_path, {"w-1": 2000}, wire.ask, "store", seed=SEED, per_block=PER_BLOCK)
        async with wire.joining(desk(wire), mine):
            with pytest.raises(RunFailed, match=r"store cannot send block .* of w-1: the shard has 16 blocks"):
                await mine.prefetch("w-1")

    run(story)


def test_a_desk_ignores_what_is_not_for_it() -> None:
    assert asked(NoSuchBlock("w-1", (1,), "?")) == []
    [model] = asked(WantModel())
    assert model.size == 10 * 4 + WantModel().size


def test_a_block_wanted_twice_before_it_left_is_sent_once() -> None:
    async def story() -> None:
        sent: list[int] = []
        gate = asyncio.Event()

        async def slow(target: str, message: Message) -> None:
            await gate.wait()
            assert isinstance(message, Block)
            sent.append(message.number)

        data = TASK.data()
        counter = StoreDesk(data, shard_indices(PLAN, SEED, data), torch.zeros(1), slow)
        async with asyncio.TaskGroup() as group:
            group.create_task(counter.take("w-1", WantBlocks("", "w-1", 100, (0, 1, 2))))
            group.create_task(counter.take("w-1", WantBlocks("", "w-1", 100, (1, 2, 3))))
            group.create_task(counter.take("w-2", WantBlocks("", "w-1", 100, (1,))))
            await asyncio.sleep(0.05)
            gate.set()
        assert sorted(sent) == [0, 1, 1, 2, 3]
        await counter.take("w-1", WantBlocks("", "w-1", 100, (1,)))  # sent before, lost perhaps: sent again
        assert sent[-1] == 1

    run(story)


def test_several_workers_share_nothing_but_the_data(tmp_path: Path) -> None:
    """Work moves between workers: each fetches of any shard what it needs."""

    async def story() -> None:
        pantries: dict[str, Pantry] = {}
        data: Dataset = TASK.data()

        async def answer(target: str, message: Message) -> None:
            await pantries[target].take("store", message)

        counter = StoreDesk(data, shard_indices(PLAN, SEED, data), torch.zeros(1), answer)
        async with asyncio.TaskGroup() as group:
            for name in SHARDS:

                async def ask(target: str, message: Message, name: str = name) -> None:
                    group.create_task(counter.take(name, message))

                pantries[name] = Pantry(
                    tmp_path / name, SHARDS, ask, "store", seed=SEED, per_block=samples_per_block(65)
                )
                group.create_task(pantries[name].ensure([Span(0, origin, 0, 30) for origin in SHARDS]))
        for mine in pantries.values():
            assert_true(mine, [Span(0, "w-2", 0, 30), Span(0, "w-1", 0, 30)])
        assert block_count(800, samples_per_block(65)) == 1

    run(story)
