"""Messages cross as what they were, and only those that may."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from wiring import CODEC, Note, Parcelled, Rich

from littoral.learning.leases import Lease, Span
from littoral.worlds.node import Message
from littoral.worlds.wire.frames import Codec, Encoded, Opening, Priority, decode_head
from littoral.worlds.wire.keys import KeyPair, new_keys
from littoral.worlds.wire.payload import Form
from littoral.worlds.wire.refusals import Refused


def opening(encoded: Encoded) -> Opening:
    return Opening(encoded.kind, len(encoded.fields), len(encoded.vector), encoded.form, 0, 0.0)


def crossed(message: Message, codec: Codec = CODEC) -> Any:
    encoded = codec.encode(message)
    head = msgspec.msgpack.decode(msgspec.msgpack.encode(opening(encoded)), type=Opening)
    codec.check(head, 2**30)
    return codec.decode(head, encoded.fields, bytearray(encoded.vector))


TORCH_TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TORCH_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 0, 5), (50_000, 2)])
def test_tensors_keep_type_shape_and_every_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.rand(shape) * 100).to(dtype)
    got = crossed(Parcelled(1, tensor)).vector
    assert (got.dtype, got.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(got, tensor)
    got += got  # it is the receiver's own memory


def test_tensors_that_are_not_contiguous_or_have_a_gradient() -> None:
    tensor = torch.rand(40, 30, requires_grad=True).t()
    assert torch.equal(crossed(Parcelled(1, tensor)).vector, tensor.detach())


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<i8", "|b1", "<u2", ">f4", "<c8", "<f2"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 3), (300, 300)])
def test_arrays_keep_type_shape_and_every_bit(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.random.default_rng(1).random(shape) * 100).astype(dtype)
    got = crossed(Parcelled(1, array)).vector
    assert isinstance(got, np.ndarray)
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("data", [b"", b"abc", bytearray(b"xyz"), memoryview(b"0123456789")[::2], b"\0" * 100_000])
def test_bytes_arrive_as_bytes(data: Any) -> None:
    assert crossed(Parcelled(1, data)).vector == bytes(data)
    assert type(crossed(Parcelled(1, data)).vector) is bytes


def test_the_senders_memory_is_lent_and_not_copied() -> None:
    tensor = torch.zeros(1000)
    encoded = CODEC.encode(Parcelled(1, tensor))
    tensor[0] = 1.0
    assert np.frombuffer(encoded.vector, np.float32)[0] == 1.0


def test_fields_of_every_kind() -> None:
    lease = Lease(3, "w", (Span(0, "shard", 1, 5), Span(1, "other", 0, 2)))
    rich = Rich(lease, {"x": 0.5}, ((1, "a"), (2, "b")), b"\0\xff", Note(4))
    assert crossed(rich) == rich
    assert crossed(Rich(None, {}, (), b"")) == Rich(None, {}, (), b"")
    assert crossed(Parcelled(1)) == Parcelled(1)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))
def test_any_number_and_any_bytes(step: int, data: bytes) -> None:
    assert crossed(Parcelled(step, data)) == Parcelled(step, data)


def test_two_kinds_of_one_name_are_not_told_apart() -> None:
    other = msgspec.defstruct("Note", [("text", str)], bases=(Message,), frozen=True)
    with pytest.raises(ValueError, match="'Note'"):
        Codec([Note, other])
    Codec([Note, Note])


def test_only_kinds_of_the_codec_leave_and_enter() -> None:
    small = Codec([Note])
    with pytest.raises(ValueError, match="Parcelled"):
        small.encode(Parcelled(1))
    with pytest.raises(Refused, match="wrong kind"):
        small.check(opening(CODEC.encode(Parcelled(1))), 2**30)


def test_what_no_vector_is_does_not_leave() -> None:
    with pytest.raises(TypeError, match="list"):
        CODEC.encode(Parcelled(1, [1.0]))
    with pytest.raises(ValueError, match="numpy"):
        CODEC.encode(Parcelled(1, np.array([object()])))


@pytest.mark.parametrize(
    ("form", "vector_bytes", "reason"),
    [
        (Form("torch", "float32", (10,)), 41, "malformed"),
        (Form("torch", "float32", (10,)), 0, "malformed"),
        (Form("torch", "_C", (10,)), 10, "malformed"),
        (Form("numpy", "|O8", (1,)), 8, "malformed"),
        (Form("numpy", "<f4,<f4", (1,)), 8, "malformed"),
        (Form("bytes", "", (2, 2)), 4, "malformed"),
        (None, 8, "malformed"),
        (Form("bytes", "", (10**10,)), 10**10, "oversized"),
        (Form("torch", "float32", (2**62, 2**62)), 16, "malformed"),
    ],
)
def test_forms_that_lie_are_refused(form: Form | None, vector_bytes: int, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        CODEC.check(Opening("Parcelled", 2, vector_bytes, form, 0, 0.0), 2**30)


def test_a_vector_for_a_kind_without_one_is_refused() -> None:
    with pytest.raises(Refused, match="malformed"):
        CODEC.check(Opening("Note", 2, 4, Form("bytes", "", (4,)), 0, 0.0), 2**30)


@pytest.mark.parametrize("fields", [b"", b"\x91\xa1x", b"\x92\x01\x02", b"\x01", b"\xc1", b"\x91\x01\x01"])
def test_fields_of_wrong_types_are_refused(fields: bytes) -> None:
    with pytest.raises(Refused, match="malformed"):
        CODEC.decode(Opening("Note", max(1, len(fields)), 0, None, 0, 0.0), fields, b"")


@given(st.binary(max_size=60))
def test_garbage_is_never_a_head(garbage: bytes) -> None:
    try:
        decode_head(garbage)
    except Refused as refusal:
        assert refusal.reason == "malformed"


def test_keys_are_fresh_and_keep_their_secret() -> None:
    keys = new_keys()
    assert len(keys.public) == len(keys.secret) == 40
    assert keys != new_keys()
    assert keys.secret.decode() not in repr(keys) + str(keys)
    with pytest.raises(ValueError, match="40 bytes"):
        KeyPair(b"short", b"short")


def test_priorities_are_ordered() -> None:
    assert sorted(Priority) == [Priority.CONTROL, Priority.URGENT, Priority.BULK]


def test_the_wire_needs_no_torch() -> None:
    code = "import sys, littoral.worlds.wire.endpoint; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
