"""Blocks come back bit for bit, travel as bytes where they were bytes, and are refused when anything is wrong."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.learning.assembly import Assembly
from littoral.learning.blocks import (
    BadBlock,
    Encoder,
    Header,
    Packing,
    as_bytes,
    decode_block,
)
from littoral.learning.codebook import Codebook
from littoral.learning.learner import Orders, Shards, named_seed
from littoral.learning.leases import Span
from littoral.learning.task import Dataset, load_task


def same_bits(left: Any, right: torch.Tensor) -> bool:
    return (
        left.dtype == right.numpy().dtype
        and left.shape == tuple(right.shape)
        and left.tobytes() == right.numpy().tobytes()
    )


def encoded(x: torch.Tensor, y: torch.Tensor) -> tuple[Header, Any]:
    return Encoder().encode("shard/0", x, y)


def images(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(count, 3, 5, 5)).astype(np.float32) / np.float32(77) - np.float32(1.3)
    return torch.from_numpy(pixels), torch.from_numpy(rng.integers(10, size=count))


def test_images_travel_as_bytes() -> None:
    x, y = images(800)
    header, content = encoded(x, y)
    assert len(content) == x.numel() + len(y) + 4 * 256
    assert header.x == Packing("<f4", (800, 3, 5, 5), "|u1", 256)
    assert header.y == Packing("<i8", (800,), "|u1")


def test_digits_weigh_what_their_footprint_says() -> None:
    task = load_task("littoral.tasks.digits", {})
    data = task.data()
    _, content = encoded(data.train_x, data.train_y)
    table = 4 * 17  # grey values
    assert len(content) == task.footprint().samples * task.footprint().sample_bytes + table


@pytest.mark.parametrize(
    ("x", "y"),
    [
        images(),
        (torch.randn(50, 7), torch.arange(50) - 25),
        (torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-42]), torch.arange(6) * 1_000_000_007),
        (torch.arange(300, dtype=torch.int32).reshape(100, 3), torch.rand(100, 2, dtype=torch.float64)),
        (torch.zeros(4, 2, dtype=torch.uint8), torch.tensor([True, False, True, True])),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
        (torch.zeros(5, 2).t()[:, :3].contiguous().t(), torch.full((3,), -(2**63))),
    ],
)
def test_every_array_comes_back_bit_for_bit(x: torch.Tensor, y: torch.Tensor) -> None:
    back_x, back_y = decode_block("shard/0", *encoded(x, y))
    assert same_bits(back_x, x.contiguous()) and same_bits(back_y, y)
    back_x[:1], back_y[:1] = 0, 0  # its own memory, to be written to


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=400), st.integers(1, 1000))
def test_any_bit_patterns_come_back(patterns: list[int], repeats: int) -> None:
    x = torch.from_numpy(np.array(patterns * min(repeats, 20), dtype=np.uint32).view(np.float32))
    y = torch.zeros(len(x), dtype=torch.int64)
    back, _ = decode_block("shard/0", *encoded(x, y))
    assert same_bits(back, x)


def test_an_encoder_learns_values_as_it_goes() -> None:
    encoder, y = Encoder(), torch.zeros(300, dtype=torch.int64)
    parts = [torch.arange(300) % 100, torch.arange(300) % 200, torch.arange(300) % 250 + 100, torch.arange(300) * 1.0]
    tables = []
    for part in parts:
        header, content = encoder.encode("shard/0", part.float(), y)
        assert same_bits(decode_block("shard/0", header, content)[0], part.float())
        tables.append(header.x.table)
    assert tables == [100, 200, 250, 0]  # the third block's values and the old ones together would be 350


def test_a_codebook_knows_what_it_does_not_hold() -> None:
    book = Codebook.of(np.arange(256, dtype=np.uint32) * 7)
    assert book is not None
    assert book.codes(np.array([14, 7], dtype=np.uint32)) is not None
    assert book.codes(np.array([14, 8], dtype=np.uint32)) is None
    assert Codebook.of(np.arange(257, dtype=np.uint32)) is None
    assert Codebook.of(np.concatenate([np.zeros(5000, np.uint32), np.arange(257, dtype=np.uint32)])) is None


@pytest.mark.parametrize("position", [0, 500, -1])
def test_one_wrong_byte_is_noticed(position: int) -> None:
    header, content = encoded(*images())
    content[position] ^= 1
    with pytest.raises(BadBlock, match="checksum"):
        decode_block("shard/0", header, content)


def test_a_block_cannot_pass_for_another() -> None:
    header, content = encoded(*images())
    with pytest.raises(BadBlock, match="checksum"):
        decode_block("shard/1", header, content)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (10**12, 3, 5, 5)},
        {"shape": (40, 3, 5, 6)},
        {"shape": (-40, -3, 5, 5)},
        {"shape": (1,) * 9},
        {"shape": ()},
        {"dtype": "|O"},
        {"dtype": "<f8"},
        {"stored": "<f4"},
        {"table": 0},
        {"table": 257},
        {"table": -1},
    ],
)
def test_descriptions_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    header, content = encoded(*images())
    wrong = msgspec.structs.replace(header.x, **change)
    with pytest.raises(BadBlock):
        decode_block("shard/0", msgspec.structs.replace(header, x=wrong), content)


def test_a_lying_length_is_refused_before_memory_is_taken() -> None:
    header, content = encoded(*images())
    with pytest.raises(BadBlock, match="announced"):
        decode_block("shard/0", header, content[:-1])
    huge = msgspec.structs.replace(header.y, shape=(2**40,))
    with pytest.raises(BadBlock, match="at most"):
        decode_block("shard/0", msgspec.structs.replace(header, y=huge), content)


def test_samples_of_a_type_that_cannot_be_sent() -> None:
    with pytest.raises(InputError, match="bfloat16"):
        encoded(torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3))


def test_a_payload_may_be_a_tensor_an_array_or_bytes() -> None:
    tensor = torch.arange(4, dtype=torch.float32)
    assert (
        as_bytes(tensor).tobytes() == as_bytes(tensor.numpy()).tobytes() == as_bytes(tensor.numpy().tobytes()).tobytes()
    )
    with pytest.raises(BadBlock):
        as_bytes(None)


# -- assemblies and orders -----------------------------------------------------------------------------------------


def test_an_assembly_takes_blocks_in_any_order() -> None:
    x, y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)
    shard = Assembly(10, 4)
    assert shard.total == 3 and not shard.complete
    for number in (2, 0):
        shard.put(number, x[4 * number : 4 * number + 4], y[4 * number : 4 * number + 4])
    got, marks = shard.rows(torch.tensor([9, 1]))
    assert got.tolist() == [[18, 19], [2, 3]] and marks.tolist() == [9, 1]
    with pytest.raises(LookupError, match=r"\[1\]"):
        shard.rows(torch.tensor([5]))
    shard.put(1, x[4:8], y[4:8])
    assert shard.complete and shard.rows(torch.arange(10))[1].tolist() == list(range(10))


def test_an_assembly_refuses_blocks_that_do_not_fit() -> None:
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
    shard = Assembly(10, 4)
    shard.put(0, x, y)
    for number, part in (
        (2, x),
        (3, x),
        (-1, x),
        (1, x[:3]),
        (1, np.zeros((4, 3), np.float32)),
        (1, x.astype(np.int64)),
    ):
        with pytest.raises(BadBlock):
            shard.put(number, part, y[: len(part)])
    assert shard.count == 1


def test_an_order_is_the_shuffle_of_the_shard_itself() -> None:
    """Shuffling positions and then looking them up gives what shuffling the shard's samples gives."""
    indices = np.random.default_rng(1).permutation(500)[:200]
    data = Dataset(train_x=torch.arange(500), train_y=torch.arange(500), test_x=torch.zeros(1), test_y=torch.zeros(1))
    x, _ = Shards(data, {"a": indices}, seed=3).batch([Span(2, "a", 10, 50), Span(0, "a", 0, 5)])
    order = np.random.default_rng(named_seed(3, "order/2/a")).permutation(indices)
    assert x[:40].tolist() == order[10:50].tolist()
    assert sorted(Orders({"a": 200}, 3).positions(Span(0, "a", 0, 200)).tolist()) == list(range(200))
