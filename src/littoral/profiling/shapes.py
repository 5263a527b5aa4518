"""Coordinates and shapes in which the physics of step times is simple, and which keep known signs.

A device that others use for a share u does its own work 1/(1-u) times slower; a fixed cost per batch is 1/b per
sample; what waits for a shared server is a product of such terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from littoral.profiling.features import SHARES, SIZES, Floats

_FULLEST = 0.97  # shares above are counted as this much, so that 1/(1-u) stays finite
_USUAL = {"memory_bytes_per_s": 1e9, "disk_bytes_per_s": 1e8, "network_bytes_per_s": 1e8}  # amounts that matter
_TERMS = 250  # a degree that would need more is left out: least squares would take seconds


def coordinates(columns: Sequence[str], X: Floats) -> Floats:
    """Columns in which logarithms of times are smooth, for models that measure distances.

    Shares as they are: beside somebody who wants a whole core training still gets its part, so that 1/(1-u) would
    overstate a full device. Sizes by their logarithms; amounts by log(1 + x), counted in what is usual of them: for
    bytes per second, that would tell hardly more than whether there are any.
    """
    return np.stack([_coordinate(name, X[:, i]) for i, name in enumerate(columns)], axis=1)


def _coordinate(name: str, x: Floats) -> Floats:
    if name in SHARES:
        return np.asarray(np.clip(x, 0.0, 1.0))
    if name in SIZES:
        return np.asarray(np.log(np.maximum(x, 1.0)))
    return np.asarray(np.log1p(np.maximum(x, 0.0) / _USUAL.get(name.removeprefix("server_"), 1.0)))


class Physical:
    """Non-negative least squares of relative errors over products of up to ``degree`` simple shapes.

    Every shape is non-negative and goes the known way with its column, so that sums and products with non-negative
    weights do too. Terms without any column of known sign may have negative weights.
    """

    def __init__(self, columns: Sequence[str], signs: Sequence[int], *, degree: int, ridge: float) -> None:
        self._columns, self._signs, self._degree, self._ridge = columns, signs, degree, ridge

    def fit(self, X: Floats, y: Floats) -> None:
        """Find the weights; ``y`` is positive."""
        from scipy.optimize import nnls

        self._scale = np.maximum(np.abs(X).max(axis=0), 1e-12)
        terms, free = self._terms(X)
        self._unit = np.maximum(np.abs(terms).max(axis=0), 1e-12)
        A = np.hstack([terms / self._unit, -(terms / self._unit)[:, free]]) / y[:, None]
        size = A.shape[1]
        ridge = np.sqrt(self._ridge * len(y)) * np.eye(size) / np.median(y)
        weights, _ = nnls(np.vstack([A, ridge]), np.concatenate([np.ones(len(y)), np.zeros(size)]), maxiter=20 * size)
        self._weights = weights[: terms.shape[1]].copy()
        self._weights[free] -= weights[terms.shape[1] :]
        self._least = y.min() / 2

    def predict(self, X: Floats) -> Floats:
        """Positive values."""
        terms, _ = self._terms(X)
        return np.asarray(np.maximum(terms / self._unit @ self._weights, self._least))

    def _terms(self, X: Floats) -> tuple[Floats, Any]:
        """Products of shapes of different columns, and which of them have no column of known sign."""
        atoms = [
            self._atoms(name, sign, X[:, i], self._scale[i])
            for i, (name, sign) in enumerate(zip(self._columns, self._signs, strict=True))
        ]
        terms, free = [np.ones(len(X))], [not any(self._signs)]
        for degree in range(1, self._degree + 1):
            groups = list(combinations(range(len(atoms)), degree))
            if degree > 1 and len(terms) + sum(math.prod(len(atoms[i]) for i in group) for group in groups) > _TERMS:
                break
            for chosen in groups:
                terms += [np.prod(factors, axis=0) for factors in product(*(atoms[i] for i in chosen))]
                signed = any(self._signs[i] for i in chosen)
                free += [not signed] * (len(terms) - len(free))
        return np.stack(terms, axis=1), np.array(free)

    @staticmethod
    def _atoms(name: str, sign: int, x: Floats, scale: float) -> list[Floats]:
        if name in SHARES:
            u = np.clip(x, 0.0, _FULLEST)
            return [1.0 - u] if sign < 0 else [u, 1.0 / (1.0 - u) - 1.0]
        if name in SIZES:
            rising, falling = np.maximum(x, 1.0) / scale, 1.0 / np.maximum(x, 1.0)
            return [rising] if sign > 0 else [falling] if sign < 0 else [rising, falling]
        amount = np.clip(x / scale, 0.0, 10.0)
        return [1.0 / (1.0 + amount)] if sign < 0 else [amount]
