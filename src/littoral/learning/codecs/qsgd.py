"""Unbiased rounding, and where the codecs' randomness comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.bits import block_count, in_blocks, pack_nibbles
from littoral.learning.codecs.codec import Family, Quantiser, Turn
from littoral.learning.codecs.frame import COUNTS, Tag
from littoral.learning.codecs.parameters import check_count
from littoral.learning.codecs.rounding import split_scales

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15


def generator(seed: int, counter: int) -> Any:
    """The generator of one message: the same on every machine for the same seed and number."""
    import torch

    mixed = ((seed + 1) * _GOLDEN + (counter % COUNTS) * 0xBF58476D1CE4E5B9) % 2**63
    return torch.Generator().manual_seed(mixed)


@dataclass(frozen=True, slots=True)
class Qsgd(Quantiser):
    """QSGD (Alistarh et al., 2017): whole multiples of norm / levels, rounded up or down at random without bias.

    The norm is taken per bucket. Up to 7 levels take four bits per element, up to 127 eight. Which way is rounded
    depends on ``seed`` and the number of the message alone. With fewer levels than the root of the bucket the error
    may exceed the vector: good for averaging many senders, not for error feedback.
    """

    levels: int = 127
    bucket: int = 512
    seed: int = 0
    tag: ClassVar[Tag] = Tag.QSGD
    family: ClassVar[Family] = Family.STOCHASTIC

    def __post_init__(self) -> None:
        check_count("levels of qsgd", self.levels, 1, 127)
        check_count("bucket of qsgd", self.bucket, 1)
        check_count("seed of qsgd", self.seed, 0, 2**63)

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        return f"qsgd:{self.levels}"

    @property
    def contracts(self) -> bool:
        """The published bound on the variance, min(b/s^2, sqrt(b)/s), is below one."""
        return self.levels > math.sqrt(self.bucket)

    def body_bytes(self, length: int) -> int:
        """A byte or half of one per element, four bytes per bucket."""
        codes = -(-length // 2) if self._nibbles else length
        return codes + 4 * block_count(length, self.bucket)

    def squeeze(self, vector: Tensor, turn: Turn) -> tuple[Tensor, ...]:
        """The unit of every bucket, then how many of them each element is."""
        import torch

        rows = in_blocks(vector, self.bucket)
        units = _norms(rows) / self.levels
        chance = torch.rand(len(vector), generator=generator(self.seed, turn.counter)).to(vector.device)
        steps = (rows / units.masked_fill(units == 0, 1.0)[:, None]).view(-1)[: len(vector)]
        codes = steps.add_(chance).floor_().clamp_(-self.levels, self.levels).to(torch.int8)
        return units, pack_nibbles((codes + 8).view(torch.uint8)) if self._nibbles else codes

    def restore(self, body: Tensor, length: int) -> Tensor:
        """Codes times units."""
        import torch

        units, codes = split_scales(body, length, self.bucket)
        if self._nibbles:
            codes = torch.stack([codes & 15, codes >> 4], 1).view(-1)[:length] - 8  # wraps, and is read as signed
        rows = in_blocks(codes.view(torch.int8).float(), self.bucket)
        return (rows * units[:, None]).view(-1)[:length]

    @property
    def _nibbles(self) -> bool:
        return self.levels <= 7


def _norms(rows: Tensor) -> Tensor:
    """Euclidean norm per row; squares of huge or tiny numbers do not leave the range."""
    most = rows.abs().amax(1)
    shares = rows / most.masked_fill(most == 0, 1.0)[:, None]
    return most * shares.square().sum(1).sqrt()
