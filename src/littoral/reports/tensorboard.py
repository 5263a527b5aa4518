"""A run as an event file of TensorBoard, written without it.

An event file is a TFRecord file: each record is its length in eight bytes, their checksum, the data and its checksum,
all little-endian. A checksum is a CRC-32C, rotated and shifted by a constant. The data is an ``Event`` in protocol
buffers' encoding; only the few fields below are needed.

    Event    1: wall_time (double)  2: step (int64)  3: file_version (string)  5: summary (Summary)
    Summary  1: value (repeated)        Value   1: tag (string)  2: simple_value (float)  8: tensor  9: metadata
    tensor   1: dtype (7: string)  2: shape  8: string_val       metadata  1: plugin_data (1: plugin_name)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from littoral.errors import InputError
from littoral.reports.curves import Curves, plain_name, read_curves

_VERSION = "brain.Event:2"
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types
_STRING = 7  # as a tensor's dtype


def write_tensorboard(run: Path, out: Path) -> Path:
    """The event file, in a folder of the run's name below ``out``."""
    told = read_curves(run)
    folder = out / plain_name(run.resolve().name)
    if folder.exists() and any(folder.iterdir()):
        raise InputError("there is something already", file=folder, remedy="choose another --out, or move it away")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(told.began)}.littoral"
    draft = path.with_name(f".{path.name}.tmp")
    with draft.open("wb") as file:
        for event in _events(told):
            file.write(record(event))
    os.replace(draft, path)
    return path


def _events(told: Curves) -> Iterator[bytes]:
    yield _event(told.began, 0, _bytes(3, _VERSION.encode()))
    settings = "\n".join(["| setting | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in told.settings.items())])
    yield _event(told.began, 0, _bytes(5, _bytes(1, _text("settings", settings))))
    points = sorted((point.t, name, point) for name, points in told.curves.items() for point in points)
    for t, name, point in points:
        yield _event(told.began + t, point.step, _bytes(5, _bytes(1, _scalar(plain_name(name), point.value))))
    last = max((point.step for _, _, point in points), default=0)
    for name, value in told.figures.items():
        yield _event(told.ended, last, _bytes(5, _bytes(1, _scalar(f"result/{plain_name(name)}", value))))


# -- Event, field by field --------------------------------------------------------------------------------------------


def _event(wall_time: float, step: int, what: bytes) -> bytes:
    return _key(1, _DOUBLE) + struct.pack("<d", wall_time) + _key(2, _VARINT) + _varint(step) + what


def _scalar(tag: str, value: float) -> bytes:
    return _bytes(1, tag.encode()) + _key(2, _FLOAT) + struct.pack("<f", value)


def _text(tag: str, text: str) -> bytes:
    tensor = _key(1, _VARINT) + _varint(_STRING) + _bytes(2, b"") + _bytes(8, text.encode())
    return _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, _bytes(1, _bytes(1, b"text")))


def _bytes(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    """Seven bits at a time, the lowest first.

    >>> _varint(300).hex()
    'ac02'
    """
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


# -- TFRecord ---------------------------------------------------------------------------------------------------------


def record(data: bytes) -> bytes:
    """Data as a record."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    checksum = crc32c(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _table() -> list[int]:
    """Of the reversed Castagnoli polynomial."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The checksum of RFC 3720.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    return checksum ^ 0xFFFFFFFF
