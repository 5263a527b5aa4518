"""What a worker keeps on disk for its next life: found again if it is sound, and never trusted if it is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from depot import MODEL, PLAN, SPANS, Wire, assert_true, open_pantry, story, supplied, until

from littoral.worlds.processes.pantry import edition


@story
async def test_a_killed_worker_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (first, _):
        fetch = asyncio.create_task(first.prefetch("w-1"))
        await until(lambda: first.held("w-1")[0] >= 7)
        fetch.cancel()
        await asyncio.gather(fetch, return_exceptions=True)
    had = first.held("w-1")[0]
    async with supplied(tmp_path) as (second, wire):
        await second.prefetch("w-1")
    assert 7 <= had < 16 and wire.blocks == 16 - had
    assert_true(second, SPANS[:1])


@story
async def test_a_worker_that_has_all_needs_no_store(tmp_path: Path) -> None:
    async with supplied(tmp_path) as (first, _):
        await first.prefetch("w-2")
    alone = open_pantry(Wire(cut=True).ask, tmp_path)
    await alone.ensure(SPANS[1:2])
    assert_true(alone, SPANS[1:2])
    assert alone.bytes_received == 0


def spoil(path: Path, damage: str) -> None:
    raw = bytearray(path.read_bytes())
    match damage:
        case "flip":
            raw[-3] ^= 4
        case "truncate":
            del raw[-9:]
        case "empty":
            raw.clear()
        case "foreign":
            raw[:] = b"hello, this is no block"
    path.write_bytes(raw)
    if damage == "draft":
        path.rename(path.with_suffix(".draft"))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign", "draft"])
@story
async def test_spoiled_files_are_fetched_again(tmp_path: Path, damage: str) -> None:
    async with supplied(tmp_path) as (first, _):
        await first.prefetch("w-3")
    [path] = tmp_path.glob("*/*.block")
    spoil(path, damage)
    async with supplied(tmp_path) as (second, wire):
        await second.ensure(SPANS[2:])
    assert_true(second, SPANS[2:])
    assert wire.blocks == 1 and not list(tmp_path.glob("*/*.draft"))
    assert second.spoiled == (damage in ("flip", "truncate"))


@story
async def test_blocks_of_another_edition_are_not_taken(tmp_path: Path) -> None:
    for name in ("a", "b"):
        async with supplied(tmp_path, edition=name) as (pantry, wire):
            await pantry.prefetch("w-3")
        assert wire.blocks == 1


def test_an_edition_is_one_cut_of_one_data_set() -> None:
    names = [edition("digits", options, PLAN, seed) for options, seed in (({}, 0), ({}, 1), ({"seed": 1}, 1))]
    assert len(set(names)) == 3 and names[0] == edition("digits", {}, PLAN, 0)


@story
async def test_a_full_disk_only_costs_the_next_life(tmp_path: Path) -> None:
    async with supplied(tmp_path / "folder") as (pantry, _):
        await pantry.model(len(MODEL))
        for path in tmp_path.glob("folder/*/*"):
            path.unlink()
        next(tmp_path.glob("folder/*")).rmdir()  # no file can be written there any more
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)


@story
async def test_a_folder_that_cannot_be_made_only_costs_the_next_life(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    async with supplied(tmp_path / "file" / "folder") as (pantry, _):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)


@story
async def test_a_pantry_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with supplied(None) as (pantry, _):
        await pantry.ensure(SPANS)
    assert_true(pantry, SPANS)
    assert not list(tmp_path.iterdir())
