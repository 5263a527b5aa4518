"""Max N: what is within N percent of the largest magnitude, and the largest N that a link has time for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.codec import Quantiser, Turn
from littoral.learning.codecs.frame import Tag
from littoral.learning.codecs.narrow import DENSE
from littoral.learning.codecs.parameters import check_fits, check_least, check_segments, check_share
from littoral.learning.codecs.sparse import Sparsifier
from littoral.learning.phantom import Phantom

if TYPE_CHECKING:
    from torch import Tensor

_HALVINGS = 24  # N is found to 100 / 2**24 percent


@dataclass(frozen=True, slots=True)
class MaxN(Sparsifier):
    """DLion (Hong and Chandra, 2021): an element crosses when |g| >= (1 - N/100) max|g| of its tensor.

    ``segments`` are the tensors as (start, stop); elements in none of them always cross. Zeros never need to.
    Sizes are predicted as if elements were normally distributed; tails of real gradients are longer, and fewer cross.
    """

    percent: float = 10.0
    segments: tuple[tuple[int, int], ...] | None = None
    tag: ClassVar[Tag] = Tag.MAXN

    def __post_init__(self) -> None:
        check_share("percent of maxn", self.percent, 100.0)
        check_segments("maxn", self.segments or ())

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        return f"maxn:{self.percent}"

    def kept(self, length: int) -> int:
        """A prediction: how many of so many normal numbers come near the largest one can expect of them."""
        largest = NormalDist().inv_cdf(1 - 0.5 / (length + 1))
        beyond = 2 * NormalDist().cdf(-largest * (1 - self.percent / 100))
        return min(length, max(1, round(length * beyond)))

    def select(self, vector: Tensor, turn: Turn) -> Tensor:
        """Everything near its tensor's maximum."""
        sizes = vector.abs()
        return (self._near(sizes, self._maxima(sizes)) & (sizes > 0)).nonzero().view(-1)

    def _near(self, sizes: Tensor, maxima: Tensor) -> Tensor:
        return sizes >= maxima * (1 - self.percent / 100)

    def _candidates(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Magnitudes that are not zero and the maxima they are compared with."""
        sizes = vector.abs()
        maxima, some = self._maxima(sizes), sizes > 0
        return sizes[some], maxima if maxima.ndim == 0 else maxima[some]

    def _maxima(self, sizes: Tensor) -> Tensor:
        """The maximum of each element's tensor; without segments one number for all."""
        if not len(sizes):
            return sizes
        if self.segments is None:
            return sizes.max()
        check_fits(self.segments, len(sizes))
        maxima = sizes.new_zeros(len(sizes))
        for start, stop in self.segments:
            maxima[start:stop] = sizes[start:stop].max()
        return maxima


def largest_n(
    vector: Any, budget_bytes: float, floor_percent: float = 1.0, like: MaxN | None = None, values: Quantiser = DENSE
) -> float:
    """The largest N whose payload of ``vector`` has at most ``budget_bytes``, but never less than the floor.

    The budget of a link is its bytes per second divided by the sender's iterations per second. The size of a
    payload never falls as N grows, so N is found by halving.
    """
    check_share("floor of N", floor_percent, 100.0)
    check_least("budget in bytes", budget_bytes)
    codec = like or MaxN()
    if isinstance(vector, Phantom):
        return _halved(
            lambda n: replace(codec, percent=n).nbytes_with(len(vector), values), budget_bytes, floor_percent
        )
    sizes, maxima = codec._candidates(vector)

    def nbytes(percent: float) -> int:
        kept = int(replace(codec, percent=percent)._near(sizes, maxima).count_nonzero())
        return codec.size(kept, len(vector), values)[0]

    return _halved(nbytes, budget_bytes, floor_percent)


def _halved(nbytes: Any, budget: float, floor: float) -> float:
    """The largest number from ``floor`` to 100 whose size fits, or the floor."""
    if nbytes(100.0) <= budget:
        return 100.0
    low, high = floor, 100.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if nbytes(middle) <= budget else (low, middle)
    return low
