"""Gaia's filter: a change crosses once it matters to the parameter that it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.codec import FIRST, Turn
from littoral.learning.codecs.frame import Tag
from littoral.learning.codecs.parameters import check_least, check_share
from littoral.learning.codecs.sparse import Sparsifier
from littoral.learning.codecs.topk import share_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Significant(Sparsifier):
    """Accumulated changes with |acc / w| above the threshold (Hsieh et al., Gaia, 2017).

    A change of a parameter that is zero always crosses, no change never. Where an index and a value per significant
    element are no smaller than all values (from half of them on), all cross, the insignificant ones too. The
    threshold should fall with the step size, as v / sqrt(t): give the current one with every message. Sizes are
    predicted from the ``expected`` share of significant elements.
    """

    threshold: float = 0.01
    expected: float = 0.05
    tag: ClassVar[Tag] = Tag.SIGNIFICANT
    bitmaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_least("threshold of significance", self.threshold)
        check_share("expected share of significant elements", self.expected)

    @property
    def name(self) -> str:
        """As a user would write it."""
        return f"significant:{self.threshold}"

    def encode(self, vector: Any, turn: Turn = FIRST, *, weights: Any = None, threshold: float | None = None) -> Any:
        """The payload; the weights (with the vector already added) come here or in the turn."""
        weights = turn.weights if weights is None else weights
        threshold = turn.threshold if threshold is None else threshold
        return Sparsifier.encode(self, vector, replace(turn, weights=weights, threshold=threshold))

    def kept(self, length: int) -> int:
        """A prediction."""
        return share_of(self.expected, length)

    def select(self, vector: Tensor, turn: Turn) -> Tensor:
        """The significant ones; compared as products, so that nothing is divided by zero."""
        if turn.weights is None or len(turn.weights) != len(vector):
            raise ValueError("significance is relative to the weights: give them, as many as changes")
        threshold = self.threshold if turn.threshold is None else turn.threshold
        enough: Tensor = turn.weights.double().abs() * threshold
        return (vector.double().abs() > enough).nonzero().view(-1)
