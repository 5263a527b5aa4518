"""A shard put together from blocks, in whatever order they come."""

from __future__ import annotations

import torch
from torch import Tensor

from littoral.learning.blocks import Array, BadBlock
from littoral.learning.cutting import block_count


class Assembly:
    """The samples of one shard of ``size``, as far as they are here.

    Memory is reserved whole and filled block by block; what was never filled costs nothing, as the system hands out
    memory when it is written to.
    """

    def __init__(self, size: int, per_block: int) -> None:
        self._size, self._per_block = size, per_block
        self._x: Tensor | None = None
        self._y: Tensor | None = None
        self.total = block_count(size, per_block)
        self._here: set[int] = set()

    @property
    def count(self) -> int:
        """Blocks that are here."""
        return len(self._here)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return len(self._here) == self.total

    def has(self, number: int) -> bool:
        """Whether this block is here."""
        return number in self._here

    def put(self, number: int, x: Array, y: Array) -> None:
        """Add a block; raises unless it has the rows it should have, of the kind that the others have."""
        start, stop = number * self._per_block, min((number + 1) * self._per_block, self._size)
        if not 0 <= number < self.total or len(x) != stop - start:
            raise BadBlock(f"block {number} of {self.total} has {len(x)} samples, {stop - start} are due")
        new_x, new_y = torch.from_numpy(x), torch.from_numpy(y)
        self._x, self._y = self._reserved(self._x, new_x), self._reserved(self._y, new_y)
        self._x[start:stop], self._y[start:stop] = new_x, new_y
        self._here.add(number)

    def blocks_of(self, positions: Tensor) -> list[int]:
        """The blocks that hold these positions."""
        numbers: list[int] = torch.unique(positions // self._per_block).tolist()
        return numbers

    def rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets at these positions; all of their blocks must be here."""
        missing = () if self.complete else [n for n in self.blocks_of(positions) if n not in self._here]
        if missing or self._x is None or self._y is None:
            raise LookupError(f"blocks {list(missing)} are not here yet: ensure them first")
        return self._x.index_select(0, positions), self._y.index_select(0, positions)

    def _reserved(self, whole: Tensor | None, part: Tensor) -> Tensor:
        if whole is None:
            return torch.empty((self._size, *part.shape[1:]), dtype=part.dtype)
        if whole.shape[1:] != part.shape[1:] or whole.dtype != part.dtype:
            raise BadBlock(f"samples of {part.dtype} {tuple(part.shape[1:])} among {tuple(whole.shape[1:])}")
        return whole
