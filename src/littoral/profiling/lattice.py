"""Any regressor made monotone: read on a lattice over all columns, put in order, and interpolated.

The ordered lattice is the mean of the running maximum and the running minimum, both of which go the right way; what
lies between its nodes is interpolated linearly in every column, which keeps that. Beyond its ends it is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from littoral.profiling.features import Floats

_NODES = 12_000  # in all
LARGEST = 5  # columns: with more, the nodes lie too far apart


class Regressor(Protocol):
    """Learns values from rows."""

    def fit(self, X: Floats, y: Floats) -> Any: ...
    def predict(self, X: Floats) -> Floats: ...


class Ordered:
    """``inner`` made to rise (1) or fall (-1) with some columns."""

    def __init__(self, inner: Regressor, signs: Sequence[int]) -> None:
        self._inner, self._signs = inner, signs

    def fit(self, X: Floats, y: Floats) -> None:
        """Learn, and read the lattice over what was seen."""
        from scipy.interpolate import RegularGridInterpolator

        self._inner.fit(X, y)
        self._low, self._high = X.min(axis=0), X.max(axis=0)
        each = int(_NODES ** (1 / X.shape[1])) if X.shape[1] > 1 else 65
        axes = [np.linspace(low, max(high, low + 1e-9), each) for low, high in zip(self._low, self._high, strict=True)]
        nodes = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=1)
        values = self._inner.predict(nodes).reshape([each] * len(axes))
        self._lattice = RegularGridInterpolator(axes, ordered(values, self._signs))

    def predict(self, X: Floats) -> Floats:
        """Monotone values."""
        return np.asarray(self._lattice(np.clip(X, self._low, self._high)))


def ordered(values: Floats, signs: Sequence[int]) -> Floats:
    """Values of a lattice, rising along axes of sign 1 and falling along those of -1.

    >>> ordered(np.array([1.0, 3.0, 2.0, 4.0]), [1])
    array([1. , 2.5, 2.5, 4. ])
    """
    turned = tuple(slice(None, None, -1 if sign < 0 else 1) for sign in signs)
    top, bottom = values[turned], values[turned]
    for axis, sign in enumerate(signs):
        if sign:
            top = np.maximum.accumulate(top, axis)
            bottom = np.flip(np.minimum.accumulate(np.flip(bottom, axis), axis), axis)
    return np.asarray(((top + bottom) / 2)[turned])
