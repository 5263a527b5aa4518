"""A frame's features as datagrams: each fits an Ethernet packet and says which part of which frame it is."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_DATAGRAM = 1400
MOST_PARTS = 1024
_HEAD = struct.Struct("<4sIHH")  # magic, frame, part, parts
_MAGIC = b"LSF1"
_ROW = np.dtype([("point", "<f4", 4), ("descriptor", "u1", 128)])
_ROWS = (LARGEST_DATAGRAM - _HEAD.size) // _ROW.itemsize


class BadDatagram(Exception):
    """Not a part of a frame."""


@dataclass(frozen=True, slots=True)
class Features:
    """Points (x, y, size, angle) and the descriptor of each; SIFT's descriptors are whole numbers below 256."""

    points: NDArray[np.float32]
    descriptors: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, slots=True)
class Part:
    """One datagram's share of a frame."""

    frame: int
    number: int
    parts: int
    rows: NDArray[Any]


def to_datagrams(frame: int, features: Features) -> list[bytes]:
    """A frame's features, at least one datagram even if there are none."""
    rows = np.empty(len(features), dtype=_ROW)
    rows["point"], rows["descriptor"] = features.points, features.descriptors
    parts = max(1, -(-len(rows) // _ROWS))
    return [
        _HEAD.pack(_MAGIC, frame % 2**32, number, parts) + rows[number * _ROWS : (number + 1) * _ROWS].tobytes()
        for number in range(parts)
    ]


def read_datagram(datagram: bytes) -> Part:
    """What one datagram says; anybody may send us one, so everything is checked."""
    body = len(datagram) - _HEAD.size
    if not 0 <= body <= LARGEST_DATAGRAM - _HEAD.size or body % _ROW.itemsize:
        raise BadDatagram(f"{len(datagram)} bytes")
    magic, frame, number, parts = _HEAD.unpack_from(datagram)
    if magic != _MAGIC or not number < parts <= MOST_PARTS:
        raise BadDatagram(f"part {number} of {parts}, marked {magic!r}")
    return Part(frame, number, parts, np.frombuffer(datagram, dtype=_ROW, offset=_HEAD.size))


def joined(parts: Sequence[Part]) -> Features:
    """The features of all parts of a frame, in their order."""
    rows = np.concatenate([part.rows for part in parts])
    return Features(rows["point"], rows["descriptor"])
