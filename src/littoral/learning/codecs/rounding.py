"""Eight or four bits per element and one float32 scale per block; deterministic, round to nearest.

A block whose largest magnitude is zero is all zeros and stays so. Below 1e-36 or so the scales themselves run out
of bits, and so does the promise about errors (not about finiteness).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.bits import block_count, in_blocks, pack_nibbles
from littoral.learning.codecs.codec import Family, Quantiser, Turn
from littoral.learning.codecs.frame import Tag, cast
from littoral.learning.codecs.parameters import check_count

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Int8(Quantiser):
    """Blockwise absolute maximum: scale = max|v| / 127, error at most half a scale per element."""

    block: int = 256
    tag: ClassVar[Tag] = Tag.INT8
    family: ClassVar[Family] = Family.BYTE
    name: ClassVar[str] = "int8"

    def __post_init__(self) -> None:
        check_count("block of int8", self.block, 1)

    def body_bytes(self, length: int) -> int:
        """A byte per element, four per block."""
        return length + 4 * block_count(length, self.block)

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """Scales, then codes."""
        import torch

        rows = in_blocks(vector, self.block)
        scales = rows.abs().amax(1) / 127
        codes = (rows / _divisor(scales)).round_().clamp_(-127, 127).to(torch.int8)
        return scales, codes.view(-1)[: len(vector)]

    def restore(self, body: Tensor, length: int) -> Tensor:
        """Codes times scales."""
        import torch

        scales, codes = split_scales(body, length, self.block)
        rows = in_blocks(codes.view(torch.int8).float(), self.block)
        return (rows * scales[:, None]).view(-1)[:length]


class _Nibbles(Quantiser):
    """Sixteen codes, each a share of the block's largest magnitude."""

    __slots__ = ()
    block: int
    levels: ClassVar[tuple[float, ...]]

    def body_bytes(self, length: int) -> int:
        """Half a byte per element, four bytes per block."""
        return -(-length // 2) + 4 * block_count(length, self.block)

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """Scales, then pairs of codes."""
        rows = in_blocks(vector, self.block)
        scales = rows.abs().amax(1)
        codes = self.nearest(rows / _divisor(scales))
        return scales, pack_nibbles(codes.view(-1)[: len(vector)])

    def restore(self, body: Tensor, length: int) -> Tensor:
        """The level of each code times its block's scale."""
        scales, pairs = split_scales(body, length, self.block)
        values = _pairs(self.levels).to(body.device).index_select(0, pairs.int())
        return (in_blocks(values.view(-1)[:length], self.block) * scales[:, None]).view(-1)[:length]

    @abstractmethod
    def nearest(self, shares: Tensor) -> Tensor:
        """The code of the level nearest to each number between -1 and 1."""


@dataclass(frozen=True, slots=True)
class Int4(_Nibbles):
    """Fifteen even steps: error at most max|v| / 14 per element."""

    block: int = 256
    tag: ClassVar[Tag] = Tag.INT4
    family: ClassVar[Family] = Family.NIBBLE
    name: ClassVar[str] = "int4"
    levels: ClassVar[tuple[float, ...]] = tuple((code - 8) / 7 for code in range(16))

    def __post_init__(self) -> None:
        check_count("block of int4", self.block, 1)

    def nearest(self, shares: Tensor) -> Tensor:
        """Round to nearest."""
        import torch

        return (shares * 7).round_().clamp_(-7, 7).add_(8).to(torch.uint8)


@dataclass(frozen=True, slots=True)
class E3M0(_Nibbles):
    """A sign and three bits of exponent: zero and powers of two down to 1/64 of the block's largest magnitude.

    Error at most a third of the element or 1/128 of the block's maximum, whichever is larger. The 4-bit float that
    Streaming DiLoCo (Douillard et al., 2025) sends outer deltas in, while it adds them up in float32.
    """

    block: int = 256
    tag: ClassVar[Tag] = Tag.FP4
    family: ClassVar[Family] = Family.NIBBLE
    name: ClassVar[str] = "fp4"
    levels: ClassVar[tuple[float, ...]] = tuple(
        sign * size for sign in (1.0, -1.0) for size in (0.0, *(2.0**e for e in range(-6, 1)))
    )

    def __post_init__(self) -> None:
        check_count("block of fp4", self.block, 1)

    def nearest(self, shares: Tensor) -> Tensor:
        """The nearest level: up from three quarters of it on, and up from zero at half the smallest.

        So the level of x is the power of two at or below 4/3 x, which is what the exponent bits of that float say.
        """
        import torch

        sizes = shares.abs()
        exponents = ((sizes * (4 / 3)).view(torch.int32) >> 23) - 127
        codes = (exponents + 7).clamp_(0, 7).max(sizes > 2.0**-7)
        return codes.add_(shares < 0, alpha=8).to(torch.uint8)


def split_scales(body: Tensor, length: int, block: int) -> tuple[Tensor, Tensor]:
    """The scales of a body and its codes."""
    import torch

    border = 4 * block_count(length, block)
    return cast(body[:border], torch.float32), body[border:]


def _divisor(scales: Tensor) -> Tensor:
    """Scales to divide rows by: 0/0 of a row of zeros becomes 0/1."""
    return scales.masked_fill(scales == 0, 1.0)[:, None]


@cache
def _pairs(levels: tuple[float, ...]) -> Any:
    """Both levels in every byte: one look-up for two elements."""
    import torch

    table = torch.tensor(levels)
    byte = torch.arange(256)
    return torch.stack([table[byte & 15], table[byte >> 4]], 1)
