"""A worker's pantry: the samples it gives are the data set's own, and it asks for no more than it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from depot import MODEL, PLAN, SEED, SHARDS, SPANS, TASK, Wire, assert_true, open_pantry, story, supplied, until

from littoral.errors import RunFailed
from littoral.learning.blocks import Header, Packing
from littoral.learning.learner import Learner, Shards, named_seed
from littoral.learning.leases import Span
from littoral.learning.mathematics import RealMathematics
from littoral.learning.task import load_task
from littoral.worlds.processes.store import Block, StoreDesk, WantBlocks


@story
async def test_batches_are_the_data_sets_own_bit_for_bit(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (pantry, _):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)
    assert_true(pantry, SPANS[:1])


@story
async def test_blocks_of_digits_travel_at_their_footprint(tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    options = {"clock": lambda: 7.0, "fetched": lambda size, start: told.append((size, start))}
    async with supplied(tmp_path, **options) as (pantry, wire):
        await pantry.prefetch("w-1")
    expected = SHARDS["w-1"] * TASK.footprint().sample_bytes + wire.blocks * 4 * 17
    assert pantry.bytes_received == expected and told == [(expected, 7.0)]


@story
async def test_floats_that_are_not_bytes_come_too(tmp_path: Path) -> None:
    data = load_task("littoral.tasks.synthetic", {"samples": 100, "test_samples": 10}).data()
    wire, indices = Wire(), {"w-1": torch.arange(100).numpy()[::-1]}
    pantry = open_pantry(wire.ask, tmp_path, {"w-1": 100}, per_block=16)
    async with wire.joining(StoreDesk(data, indices, torch.zeros(3), wire.answer), pantry):
        await pantry.prefetch("w-1")
    span = [Span(0, "w-1", 0, 100)]
    for got, wanted in zip(pantry.batch(span), Shards(data, indices, SEED).batch(span), strict=True):
        assert torch.equal(got, wanted)


@story
async def test_a_learner_learns_the_same_from_a_pantry(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (pantry, _):
        await pantry.ensure(SPANS[:1])
    local = RealMathematics(TASK, PLAN, SEED).worker("w-1")
    remote = Learner(TASK, pantry, named_seed(SEED, "model") % 2**63)
    ours, theirs = remote.gradient(SPANS[:1]), local.gradient(SPANS[:1])
    assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]


@story
async def test_only_the_blocks_of_the_spans_are_fetched(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (pantry, wire):
        await pantry.ensure([Span(0, "w-1", 0, 3)])
    assert wire.blocks == pantry.held("w-1")[0] <= 3
    with pytest.raises(LookupError, match="ensure"):
        pantry.batch([Span(0, "w-1", 0, 800)])


@story
async def test_progress_is_told(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    async with supplied(tmp_path) as (pantry, _):
        await pantry.prefetch("w-1", lambda have, total: steps.append((have, total)))
    assert steps[0] == (0, 16) and steps[-1] == (16, 16) and steps == sorted(steps)


@story
async def test_no_more_is_asked_for_than_can_be_under_way(tmp_path: Path) -> None:
    async with supplied(tmp_path, per_block=5) as (pantry, wire):  # 160 blocks
        await pantry.prefetch("w-1")
    sizes = [len(want.numbers) for want in wire.wants if isinstance(want, WantBlocks)]
    assert max(sizes) <= 16 and sum(sizes) == 160 == wire.blocks


@story
async def test_the_base_model_comes_and_stays(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (pantry, _):
        assert torch.equal(await pantry.model(len(MODEL)), MODEL)
    again = open_pantry(Wire(cut=True).ask, tmp_path)
    assert torch.equal(await again.model(len(MODEL)), MODEL)
    assert again.bytes_received == 0
    with pytest.raises(RunFailed, match="1000 elements"):
        await again.model(999)


@story
async def test_a_worker_learns_that_a_block_does_not_exist(tmp_path: Path) -> None:
    async with supplied(tmp_path, sizes={"w-1": 2000}) as (pantry, _):
        with pytest.raises(RunFailed, match=r"store cannot send block .* of w-1: the shard has 16 blocks"):
            await pantry.prefetch("w-1")


@story
async def test_what_was_not_asked_for_does_no_harm(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (pantry, wire):
        await pantry.prefetch("w-3")
        wire.to_store.put_nowait(WantBlocks("", "w-3", 50, (0,)))  # twice
        wire.to_store.put_nowait(WantBlocks("", "w-2", 7, (0,)))  # cut otherwise
        await until(lambda: wire.blocks == 3 and wire.to_worker.empty())
    packing = Packing("<f4", (1,), "<f4")
    await pantry.take("a stranger", Block("w-3", 0, Header(packing, packing, b""), b""))
    await pantry.take("store", Block("nobody", 3, Header(packing, packing, b""), b"12345678"))
    assert pantry.held("w-3") == (1, 1) and pantry.held("w-2") == (0, 12) and pantry.spoiled == 2
