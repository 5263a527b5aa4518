"""A model that knows its columns, its floor and its bounds; and how errors are counted.

    error = |predicted - measured| / max(measured, floor)

The floor (1 % of full scale for shares) keeps near-zero utilisations from ruling the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from littoral.profiling.families import build
from littoral.profiling.features import Data, Floats, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a fit needs besides the rows."""

    family: str
    settings: Mapping[str, float]
    columns: tuple[str, ...]
    seed: int = 0


CONSTANT = Recipe(family="physical", settings={"degree": 1, "ridge": 1e-6}, columns=())  # where no column matters


class Model:
    """A recipe fitted to rows; takes all columns of its function and uses those of the recipe."""

    def __init__(self, recipe: Recipe, data: Data) -> None:
        self.recipe = recipe
        self._at = [data.columns.index(name) for name in recipe.columns]
        self._missing = _middle(data.X)
        self._floor, self._most = data.floor, data.most
        signs = [data.signs[i] for i in self._at]
        self._inner = build(recipe.family, recipe.columns, signs, recipe.settings, recipe.seed)
        self._inner.fit(self.used(data.X), data.y + data.floor)

    def used(self, X: Floats) -> Floats:
        """The columns in use, missing values filled with what is usual."""
        filled = np.where(np.isnan(X), self._missing, X)
        return np.ascontiguousarray(filled[:, self._at])

    def predict(self, X: Floats) -> Floats:
        """One value per row."""
        return self.bounded(self._inner.predict(self.used(X)))

    def bounded(self, raised: Floats) -> Floats:
        """Values without their floor, inside what is possible."""
        return np.asarray(np.clip(raised - self._floor, 0.0, self._most))


def relative_errors(predicted: Floats, data: Data) -> Floats:
    """One per row; see the top of this file."""
    return np.asarray(np.abs(predicted - data.y) / np.maximum(data.y, data.floor))


def folds(points: NDArray[np.int64], count: int, seed: int) -> list[Mask]:
    """Row masks of ``count`` parts of the stress points (fewer if there are few); no point is in two of them."""
    distinct = np.unique(points)
    shuffled = np.random.default_rng(seed).permutation(distinct)
    parts = np.array_split(shuffled, min(count, len(distinct)))
    return [np.isin(points, part) for part in parts]


def _middle(X: Floats) -> Floats:
    """The median of each column's values, 0 where it has none."""
    return np.array([np.median(kept) if (kept := column[~np.isnan(column)]).size else 0.0 for column in X.T])
