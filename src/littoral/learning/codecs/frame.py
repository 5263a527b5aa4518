"""What every coded vector begins with: eight bytes that say how to read the rest, and nothing is believed unchecked.

A payload is one flat uint8 tensor: tag of the codec, form, tag of the code of its values, version, and a count
(kept elements, or the number of the message), then the body. Numbers are little-endian, as on every machine we meet.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

HEADER_BYTES = 8
COUNTS = 1 << 32  # counters of messages wrap here
_LAYOUT = struct.Struct("<BBBBI")
_VERSION = 1


class Tag(IntEnum):
    """Which codec wrote a payload."""

    DENSE = 1
    HALF = 2
    BFLOAT = 3
    INT8 = 4
    INT4 = 5
    FP4 = 6
    QSGD = 7
    SIGN = 8
    TOPK = 16
    RANDOMK = 17
    MAXN = 18
    SIGNIFICANT = 19
    POWERSGD = 32


class Form(IntEnum):
    """How a payload says which elements it holds."""

    WHOLE = 0  # all of them
    INDICES = 1  # ``count`` ascending int32 indices before the values
    BITMAP = 2  # one bit per element before the values, ``count`` of them set
    SEEDED = 3  # derived from the number of the message, which is ``count``


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first eight bytes."""

    tag: int
    form: int = Form.WHOLE
    values: int = Tag.DENSE
    count: int = 0


def seal(header: Header, *parts: Tensor) -> Tensor:
    """One flat uint8 tensor: the header, then the parts byte for byte."""
    import torch

    raw = _LAYOUT.pack(header.tag, header.form, header.values, _VERSION, header.count % COUNTS)
    first = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
    return torch.cat([first.to(parts[0].device) if parts else first, *(part.view(torch.uint8) for part in parts)])


def opened(payload: Any) -> tuple[Header, Tensor]:
    """Header and body of a payload; ValueError when it cannot be one."""
    import torch

    if not isinstance(payload, torch.Tensor) or payload.dtype is not torch.uint8 or payload.ndim != 1:
        raise ValueError("a coded vector is one flat uint8 tensor")
    if len(payload) < HEADER_BYTES:
        raise ValueError(f"a coded vector has at least {HEADER_BYTES} bytes, this one {len(payload)}")
    payload = payload.contiguous()
    tag, form, values, version, count = _LAYOUT.unpack(bytes(payload[:HEADER_BYTES].tolist()))
    if version != _VERSION:
        raise ValueError(f"a coded vector of version {version}; this is version {_VERSION}")
    return Header(tag=tag, form=form, values=values, count=count), payload[HEADER_BYTES:]


def measured(body: Tensor, nbytes: int) -> Tensor:
    """The body, once it has as many bytes as it must."""
    if len(body) != nbytes:
        raise ValueError(f"a coded vector with a body of {len(body)} bytes instead of {nbytes}")
    return body


def cast(part: Tensor, dtype: Any) -> Tensor:
    """Bytes as numbers; copied only where they do not lie where numbers may."""
    if part.storage_offset() % dtype.itemsize:
        part = part.clone()
    return part.view(dtype)
