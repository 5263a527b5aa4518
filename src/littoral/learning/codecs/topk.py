"""A fixed share of the elements: the largest, or some that everybody agrees on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from littoral.learning.codecs.codec import Family, Quantiser, Turn
from littoral.learning.codecs.frame import COUNTS, HEADER_BYTES, Form, Header, Tag, seal
from littoral.learning.codecs.parameters import check_count, check_share
from littoral.learning.codecs.qsgd import generator
from littoral.learning.codecs.sparse import Sparsifier

if TYPE_CHECKING:
    from torch import Tensor


def share_of(ratio: float, length: int) -> int:
    """That share of the elements, rounded up, at least one: 0.01 of 1000 is 10 whatever floats make of it."""
    return min(length, max(1, math.ceil(round(ratio * length, 6))))


@dataclass(frozen=True, slots=True)
class TopK(Sparsifier):
    """The k = ceil(ratio * d) elements of largest magnitude; needs error feedback to train well.

    Never loses more than (1 - k/d) of the squared norm. Sparsified SGD with memory: Stich et al., 2018.
    """

    ratio: float = 0.01
    tag: ClassVar[Tag] = Tag.TOPK

    def __post_init__(self) -> None:
        check_share("ratio of topk", self.ratio)

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        return f"topk:{self.ratio}"

    def kept(self, length: int) -> int:
        """Exactly so many."""
        return share_of(self.ratio, length)

    def select(self, vector: Tensor, turn: Turn) -> Tensor:
        """The largest magnitudes; which of several equal ones is up to torch, and always the same."""
        return vector.abs().topk(self.kept(len(vector)), sorted=False).indices.sort().values


@dataclass(frozen=True, slots=True)
class RandomK(Sparsifier):
    """k = ceil(ratio * d) elements that seed and number of the message tell: no index crosses, and sums are possible.

    ``unbiased`` multiplies by d/k, so that the mean over messages is the vector: for averaging, not for feedback.
    """

    ratio: float = 0.01
    seed: int = 0
    unbiased: bool = False
    tag: ClassVar[Tag] = Tag.RANDOMK
    family: ClassVar[Family] = Family.SHARED

    def __post_init__(self) -> None:
        check_share("ratio of randomk", self.ratio)
        check_count("seed of randomk", self.seed, 0, 2**63)

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        return f"randomk:{self.ratio}"

    @property
    def contracts(self) -> bool:
        """Not when values are multiplied: then more is lost than there was."""
        return not self.unbiased

    def kept(self, length: int) -> int:
        """Exactly so many."""
        return share_of(self.ratio, length)

    def select(self, vector: Tensor, turn: Turn) -> Tensor:
        """The elements of this message."""
        return self._drawn(turn.counter, len(vector)).to(vector.device)

    def nbytes_with(self, length: int, values: Quantiser) -> int:
        """Values alone."""
        return HEADER_BYTES + values.body_bytes(self.kept(length))

    def pack_with(self, vector: Tensor, turn: Turn, values: Quantiser) -> Tensor:
        """Values alone; the header says which message it is."""
        chosen = vector[self.select(vector, turn)]
        if self.unbiased:
            chosen = chosen * (len(vector) / max(1, len(chosen)))
        header = Header(tag=self.tag, form=Form.SEEDED, values=values.tag, count=turn.counter % COUNTS)
        return seal(header, *values.squeeze(chosen, turn))

    def read(self, header: Header, body: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """The elements of that message."""
        if header.form != Form.SEEDED:
            raise ValueError(f"a payload of randomk in form {header.form}")
        return self._drawn(header.count, length).to(body.device), body

    def _drawn(self, counter: int, length: int) -> Tensor:
        import torch

        order = torch.randperm(length, generator=generator(self.seed, counter))
        return order[: self.kept(length)].sort().values
