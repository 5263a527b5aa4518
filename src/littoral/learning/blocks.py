"""A shard in blocks that can be sent, kept and checked one by one.

A block is a stretch of a shard's base order. Floats that take at most 256 values travel as one byte each with a table,
whole numbers in the smallest type that holds them, anything else as it is; what is decoded equals what was encoded bit
for bit. A block's checksum covers its name, its description and its bytes, so a block cannot pass for another.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from littoral.errors import InputError
from littoral.learning.codebook import MOST, Codebook

LARGEST_BYTES = 1 << 28  # of a block once decoded
_DEEPEST = 8  # dimensions

Array = NDArray[Any]
_WHOLE = ("|u1", "|i1", "<u2", "<i2", "<i4", "<i8")
_TYPES = (*_WHOLE, "<f4", "<f8", "<f2", "|b1")


class BadBlock(Exception):
    """What arrived, or lay on disk, is not the block it should be."""


class Packing(msgspec.Struct, frozen=True):
    """How an array lies in a block: ``table`` entries of its own type, then one ``stored`` element per value."""

    dtype: str
    shape: tuple[int, ...]
    stored: str
    table: int = 0


class Header(msgspec.Struct, frozen=True):
    """What a block holds: inputs and targets, one after the other."""

    x: Packing
    y: Packing
    checksum: bytes


class Encoder:
    """Makes blocks; remembers the values it met, since the next block mostly has the same."""

    def __init__(self) -> None:
        self._book: Codebook | None = None

    def encode(self, name: str, x: Tensor, y: Tensor) -> tuple[Header, Array]:
        """The block called ``name`` of these samples: its description and its bytes."""
        (pack_x, bytes_x), (pack_y, bytes_y) = (self._pack(_plain(part)) for part in (x, y))
        content = np.concatenate([*bytes_x, *bytes_y])
        return Header(pack_x, pack_y, _checksum(name, pack_x, pack_y, content)), content

    def _pack(self, array: Array) -> tuple[Packing, list[Array]]:
        kind = array.dtype.str
        if kind == "<f4" and (book := self._codes(array)) is not None:
            table, codes = book
            return Packing(kind, array.shape, "|u1", len(table)), [as_bytes(table), codes]
        stored = _narrowest(array) if kind in _WHOLE else kind
        return Packing(kind, array.shape, stored), [as_bytes(array.astype(stored, copy=False))]

    def _codes(self, array: Array) -> tuple[NDArray[np.uint32], NDArray[np.uint8]] | None:
        values = array.reshape(-1).view(np.uint32)
        book = self._book
        codes = book.codes(values) if book else None
        if codes is None:
            book = book.widened(values) if book else Codebook.of(values)
            codes = book.codes(values) if book else None
        if book is None or codes is None:
            return None
        self._book = book
        return book.table, codes


def decode_block(name: str, header: Header, content: Array) -> tuple[Array, Array]:
    """Inputs and targets, in memory of their own; everything is checked before anything is allocated."""
    at = _stored_bytes(header.x)
    if at + _stored_bytes(header.y) != len(content):
        raise BadBlock(f"block {name} has {len(content)} bytes, {at + _stored_bytes(header.y)} are announced")
    if header.x.shape[:1] != header.y.shape[:1]:
        raise BadBlock(f"block {name} has inputs {header.x.shape} and targets {header.y.shape}")
    if _checksum(name, header.x, header.y, content) != header.checksum:
        raise BadBlock(f"block {name} has a wrong checksum")
    return _unpack(header.x, content[:at]), _unpack(header.y, content[at:])


def checksum(name: str, content: Array) -> bytes:
    """What tells these bytes, under this name, from any others."""
    digest = hashlib.blake2b(f"{name}\0".encode(), digest_size=16)
    digest.update(content.data)
    return digest.digest()


def as_bytes(vector: Any) -> NDArray[np.uint8]:
    """The bytes of a payload, whether it is a tensor, an array or bytes already; not copied."""
    array = vector.detach().numpy() if isinstance(vector, Tensor) else vector
    try:
        return np.frombuffer(array, dtype=np.uint8)
    except (TypeError, ValueError) as error:
        raise BadBlock(f"a payload of {type(vector).__name__}: {error}") from error


def _checksum(name: str, x: Packing, y: Packing, content: Array) -> bytes:
    return checksum(name + msgspec.json.encode((x, y)).decode(), content)


def _plain(tensor: Tensor) -> Array:
    try:
        array: Array = tensor.contiguous().numpy()
    except TypeError:  # a type that numpy lacks, such as bfloat16
        array = np.empty(0, dtype=object)
    if array.dtype.str not in _TYPES:
        raise InputError(f"samples of {tensor.dtype} cannot be sent", remedy="let the task's data() give float32")
    return array


def _narrowest(array: Array) -> str:
    if not array.size:
        return _WHOLE[0]
    low, high = int(array.min()), int(array.max())
    return next(kind for kind in _WHOLE if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def _stored_bytes(packing: Packing) -> int:
    """How long the array is as stored; raises unless its description makes sense."""
    if packing.dtype not in _TYPES or len(packing.shape) > _DEEPEST or min(packing.shape, default=-1) < 0:
        raise BadBlock(f"no such array can be: {packing}")
    values, width = math.prod(packing.shape), np.dtype(packing.dtype).itemsize
    if values * width > LARGEST_BYTES:
        raise BadBlock(f"an array of {values * width} bytes, at most {LARGEST_BYTES} are taken")
    same = packing.stored == packing.dtype and not packing.table
    narrow = packing.stored in _WHOLE and packing.dtype in _WHOLE and not packing.table
    palette = packing.stored == "|u1" and packing.dtype == "<f4" and 0 < packing.table <= MOST
    if not (same or narrow or palette):
        raise BadBlock(f"no such coding: {packing}")
    return packing.table * width + values * np.dtype(packing.stored).itemsize


def _unpack(packing: Packing, content: Array) -> Array:
    at = packing.table * np.dtype(packing.dtype).itemsize
    values = content[at:].view(packing.stored).reshape(packing.shape)
    if not packing.table:
        return values.astype(packing.dtype)
    if values.size and values.max() >= packing.table:
        raise BadBlock(f"a code beyond the table's {packing.table} entries")
    decoded: Array = content[:at].view(packing.dtype).take(values)
    return decoded
