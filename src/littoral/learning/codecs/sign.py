"""One bit per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from littoral.learning.codecs.bits import block_count, in_blocks, pack_bits, unpack_bits
from littoral.learning.codecs.codec import Family, Quantiser, Turn
from littoral.learning.codecs.frame import Tag
from littoral.learning.codecs.parameters import check_count
from littoral.learning.codecs.rounding import split_scales

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sign(Quantiser):
    """The sign of every element times their mean magnitude, for the whole vector or per block.

    EF-signSGD (Karimireddy et al., 2019): trains like SGD with error feedback, and worse without. Zeros count as
    positive; the residual takes that back.
    """

    block: int | None = None
    tag: ClassVar[Tag] = Tag.SIGN
    family: ClassVar[Family] = Family.SIGN
    name: ClassVar[str] = "sign"

    def __post_init__(self) -> None:
        if self.block is not None:
            check_count("block of sign", self.block, 1)

    def body_bytes(self, length: int) -> int:
        """A bit per element, four bytes per block."""
        return -(-length // 8) + 4 * block_count(length, self._block(length))

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """Scales, then bits."""
        import torch

        rows = in_blocks(vector, self._block(len(vector)))
        sums = rows.abs().sum(1, dtype=torch.float64)
        held = torch.full_like(sums, rows.shape[1])
        held[-1:] -= rows.numel() - len(vector)
        return (sums / held).float(), pack_bits(vector < 0)

    def restore(self, body: Tensor, length: int) -> Tensor:
        """Plus or minus the scale."""
        block = self._block(length)
        scales, packed = split_scales(body, length, block)
        signs = in_blocks(1 - 2 * unpack_bits(packed, length).float(), block)
        return (signs * scales[:, None]).view(-1)[:length]

    def _block(self, length: int) -> int:
        return self.block or max(1, length)
