"""Low rank: a matrix as the product of two thin ones, from one step of power iteration.

PowerSGD (Vogels et al., 2019) reduces P, then Q, over all workers. Between two nodes one message carries both:
P = orthonormal(A Q_before), Q = A^T P, and the receiver takes P Q^T, the projection of A onto the columns of P.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from littoral.learning.codecs.codec import Family, Framed, Turn
from littoral.learning.codecs.frame import HEADER_BYTES, Form, Header, Tag, cast, measured, opened, seal
from littoral.learning.codecs.parameters import check_count, check_fits, check_segments
from littoral.learning.codecs.qsgd import generator

if TYPE_CHECKING:
    from torch import Tensor

Matrix = tuple[int, int, int]  # start, rows, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of the vector: a matrix to be sent as P and Q, or (rank 0) numbers to be sent as they are."""

    start: int
    stop: int
    rows: int = 0
    columns: int = 0
    rank: int = 0

    @property
    def numbers(self) -> int:
        """How many floats cross for it."""
        return self.rank * (self.rows + self.columns) if self.rank else self.stop - self.start


@dataclass(frozen=True, slots=True)
class PowerSgd(Framed):
    """The matrices of ``layout`` at low rank, everything else and what would not become half as large as it is.

    Without a layout the vector is folded into one matrix, as square as possible. A stream starts from the Q of the
    message before, so that the projection follows a gradient that changes slowly.
    """

    rank: int = 2
    layout: tuple[Matrix, ...] | None = None
    seed: int = 0
    tag: ClassVar[Tag] = Tag.POWERSGD
    family: ClassVar[Family] = Family.LOWRANK
    warm: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("rank of powersgd", self.rank, 1)
        check_count("seed of powersgd", self.seed, 0, 2**63)
        check_segments("powersgd", _segments(self.layout))

    @property
    def name(self) -> str:
        """The word a user writes for it."""
        return f"powersgd:{self.rank}"

    def parts(self, length: int) -> tuple[Part, ...]:
        """How a vector of that length is cut."""
        return _parts(self.rank, self.layout, length)

    def nbytes(self, length: int) -> int:
        """Exact: four bytes per number."""
        return HEADER_BYTES + 4 * sum(part.numbers for part in self.parts(length))

    def pack(self, vector: Tensor, turn: Turn) -> Tensor:
        """P and Q of every matrix, the rest between them."""
        bodies: list[Tensor] = []
        for number, (part, before) in enumerate(self._with_previous(vector, turn)):
            if part.rank:
                start = _start(part, before, self.seed + number).to(vector.device)
                bodies.extend(_factors(_matrix(vector, part), start))
            else:
                bodies.append(vector[part.start : part.stop])
        return seal(Header(tag=self.tag, count=turn.counter), *bodies)

    def unpack(self, header: Header, body: Tensor, length: int) -> Tensor:
        """The products, each in its place."""
        import torch

        if header.form != Form.WHOLE:
            raise ValueError(f"a payload of powersgd in form {header.form}")
        vector = torch.empty(length, device=body.device)
        for part, numbers in self._numbers(body, length):
            if part.rank:
                p, q = _thin(part, numbers)
                numbers = (p @ q.T).reshape(-1)[: part.stop - part.start]
            vector[part.start : part.stop] = numbers
        return vector

    def factors(self, payload: Any, length: int) -> list[tuple[Any, Any]]:
        """The P and Q of every low-rank matrix in a payload."""
        return [_thin(part, numbers) for part, numbers in self._numbers(opened(payload)[1], length) if part.rank]

    def _numbers(self, body: Tensor, length: int) -> Iterator[tuple[Part, Tensor]]:
        import torch

        numbers = cast(measured(body, self.nbytes(length) - HEADER_BYTES), torch.float32)
        at = 0
        for part in self.parts(length):
            yield part, numbers[at : at + part.numbers]
            at += part.numbers

    def _with_previous(self, vector: Tensor, turn: Turn) -> Iterator[tuple[Part, Tensor | None]]:
        if turn.previous is None:
            return ((part, None) for part in self.parts(len(vector)))
        return self._numbers(opened(turn.previous)[1], len(vector))


@lru_cache(maxsize=256)
def _parts(rank: int, layout: tuple[Matrix, ...] | None, length: int) -> tuple[Part, ...]:
    if layout is None:
        rows = max(1, math.isqrt(length))
        return (_part(0, length, rows, -(-length // rows), rank),)
    check_fits(_segments(layout), length)
    parts, end = [], 0
    for start, rows, columns in layout:
        if start > end:
            parts.append(Part(start=end, stop=start))
        end = start + rows * columns
        parts.append(_part(start, end, rows, columns, rank))
    return (*parts, Part(start=end, stop=length)) if end < length else tuple(parts)


def _part(start: int, stop: int, rows: int, columns: int, rank: int) -> Part:
    if 2 * rank * (rows + columns) > stop - start:
        return Part(start=start, stop=stop)
    return Part(start=start, stop=stop, rows=rows, columns=columns, rank=rank)


def _segments(layout: tuple[Matrix, ...] | None) -> tuple[tuple[int, int], ...]:
    return tuple((start, start + rows * columns) for start, rows, columns in layout or ())


def _matrix(vector: Tensor, part: Part) -> Tensor:
    stretch = vector[part.start : part.stop]
    if len(stretch) == part.rows * part.columns:
        return stretch.view(part.rows, part.columns)
    padded = stretch.new_zeros(part.rows * part.columns)
    padded[: len(stretch)] = stretch
    return padded.view(part.rows, part.columns)


def _start(part: Part, before: Tensor | None, seed: int) -> Tensor:
    """The Q to begin with: the one before, its columns of size one, random where it is zero or absent."""
    import torch

    fresh = torch.randn(part.columns, part.rank, generator=generator(seed, 0))
    if before is None:
        return fresh
    q = _thin(part, before)[1]
    most = q.abs().amax(0)
    usable = (most > 0) & most.isfinite()
    return torch.where(usable, q / most.masked_fill(~usable, 1.0), fresh.to(q.device))


def _factors(matrix: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    p = torch.linalg.qr(matrix @ start).Q
    return p.contiguous().view(-1), (matrix.T @ p).contiguous().view(-1)


def _thin(part: Part, numbers: Tensor) -> tuple[Tensor, Tensor]:
    border = part.rows * part.rank
    return numbers[:border].view(part.rows, part.rank), numbers[border:].view(part.columns, part.rank)
