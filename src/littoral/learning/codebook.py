"""Values that are few, as numbers of one byte: what came from bytes can travel as bytes, without loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MOST = 256  # values that one byte can number
_SLOTS = 1 << 16
_GLANCE = 4096  # values that are looked at before all are
_ATTEMPTS = 500
_GOLDEN = 0x9E3779B1


class Codebook:
    """At most 256 bit patterns of 32 bits, each found by one multiplication.

    A multiplier that gives every pattern a slot of its own is searched once; looking values up is then five times
    as fast as sorting them. Bit patterns, not numbers: -0.0 and every NaN come back as they were.
    """

    def __init__(self, table: NDArray[np.uint32], multiplier: np.uint32) -> None:
        self.table, self._multiplier = table, multiplier
        self._slots = np.zeros(_SLOTS, dtype=np.uint8)
        self._slots[_hash(table, multiplier)] = np.arange(len(table))

    @classmethod
    def of(cls, values: NDArray[np.uint32]) -> Codebook | None:
        """The book of these values; None when there are too many."""
        if len(np.unique(values[:_GLANCE])) > MOST:
            return None
        table = np.unique(values)
        if not 0 < len(table) <= MOST:
            return None
        found = (m for m in _multipliers() if len(np.unique(_hash(table, m))) == len(table))
        multiplier = next(found, None)  # three in five will do; patterns made to defeat all 500 are sent as they are
        return None if multiplier is None else cls(table, multiplier)

    def codes(self, values: NDArray[np.uint32]) -> NDArray[np.uint8] | None:
        """Which entry each value is; None when one of them is not in the book."""
        codes: NDArray[np.uint8] = self._slots.take(_hash(values, self._multiplier))
        return codes if np.array_equal(self.table.take(codes), values) else None

    def widened(self, values: NDArray[np.uint32]) -> Codebook | None:
        """A book of these values too; if that is too many, of these alone."""
        new = Codebook.of(values)
        if new is None:
            return None
        return Codebook.of(np.concatenate([self.table, new.table])) or new


def _hash(values: NDArray[np.uint32], multiplier: np.uint32) -> NDArray[np.uint32]:
    slots = values * multiplier
    slots >>= np.uint32(16)
    return slots


def _multipliers() -> Iterator[np.uint32]:
    return (np.uint32((_GOLDEN * odd) & 0xFFFFFFFF) for odd in range(1, 2 * _ATTEMPTS, 2))
