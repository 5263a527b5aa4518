"""Bits, nibbles and blocks: how small things lie in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def pack_bits(mask: Tensor) -> Tensor:
    """Eight flags per byte, the first in the lowest bit."""
    import numpy as np
    import torch

    packed = np.packbits(mask.cpu().numpy(), bitorder="little")
    return torch.from_numpy(packed).to(mask.device)


def unpack_bits(packed: Tensor, length: int) -> Tensor:
    """The flags again; ValueError when a bit behind the last is set."""
    import numpy as np
    import torch

    array = packed.cpu().numpy()
    if length % 8 and array[-1] >> (length % 8):
        raise ValueError("a bitmap with bits behind the vector's end")
    flags = np.unpackbits(array, count=length, bitorder="little")
    return torch.from_numpy(flags).to(packed.device)


def pack_nibbles(codes: Tensor) -> Tensor:
    """Two codes below 16 per byte, the first in the lower half."""
    even = _padded(codes, 2).view(-1, 2)
    return even[:, 0] | (even[:, 1] << 4)


def in_blocks(vector: Tensor, block: int) -> Tensor:
    """The vector in rows of ``block``, the last filled up with zeros."""
    return _padded(vector, block).view(-1, block)


def block_count(length: int, block: int) -> int:
    """How many rows that are."""
    return -(-length // block)


def _padded(vector: Tensor, multiple: int) -> Tensor:
    short = -len(vector) % multiple
    if not short:
        return vector
    padded = vector.new_zeros(len(vector) + short)
    padded[: len(vector)] = vector
    return padded
