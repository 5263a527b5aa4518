"""Intervals from errors on points that were not learned, wider where such errors were larger.

Cross-conformal: each fold of the stress points is predicted by a model of the others. The logarithms of
measured / predicted are divided by their usual size nearby; a quantile of these scores, times that size at a new row,
is the half width there. Other folds are drawn than those of the search, whose best result is a lucky one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from littoral.profiling.features import Data, Floats, Mask
from littoral.profiling.fitted import Model, Recipe, folds
from littoral.profiling.shapes import coordinates

_SEED_SHIFT = 7919
_DRIFT = 0.05  # of the value, per standard deviation beyond what was measured: nothing is known out there


class Calibrated:
    """A fitted model with intervals."""

    known = True

    def __init__(self, recipe: Recipe, data: Data) -> None:
        self.model = Model(recipe, data)
        self.columns = data.columns
        self._floor = data.floor
        self._points = len(np.unique(data.points))
        parts = folds(data.points, 5, recipe.seed + _SEED_SHIFT)
        predicted = np.empty(len(data.y))
        for part in parts:
            model = Model(recipe, data.rows(~part))
            predicted[part] = model.predict(data.X[part])
        self._sizes = np.abs(np.log((data.y + data.floor) / (predicted + data.floor)))
        self._place(data, recipe)
        self._near = self._neighbours(np.ones(len(data.y), bool))
        usual = np.concatenate([self._usual(data.X[part], ~part) for part in parts])
        order = np.concatenate([np.flatnonzero(part) for part in parts])
        self._scores = np.sort(self._sizes[order] / usual)

    def predict(self, X: Floats) -> Floats:
        """One value per row of all columns."""
        return self.model.predict(X)

    def interval(self, X: Floats, level: float = 0.9) -> tuple[Floats, Floats]:
        """Where a new measurement lies with a chance of ``level``."""
        raised = self.predict(X) + self._floor
        width = np.exp(np.minimum(self._quantile(level) * self._usual(X), 50.0))
        return self.model.bounded(raised / width), self.model.bounded(raised * width)

    def _quantile(self, level: float) -> float:
        """With the correction for a finite sample; rows of one point count as one."""
        return float(np.quantile(self._scores, min(1.0, level * (1 + 1 / self._points)), method="higher"))

    def _place(self, data: Data, recipe: Recipe) -> None:
        Z = coordinates(recipe.columns, self.model.used(data.X)) if recipe.columns else np.zeros((len(data.y), 1))
        self._centre, self._spread = Z.mean(axis=0), np.maximum(Z.std(axis=0), 1e-9)
        self._seen = (Z - self._centre) / self._spread

    def _neighbours(self, among: Mask) -> Any:
        from sklearn.neighbors import KNeighborsRegressor

        sizes = self._sizes[among]
        return KNeighborsRegressor(n_neighbors=max(1, min(25, len(sizes) // 4))).fit(self._seen[among], sizes)

    def _usual(self, X: Floats, among: Mask | None = None) -> Floats:
        """The usual size of errors near each row: half its neighbours', half everybody's."""
        everywhere = max(float(self._sizes[slice(None) if among is None else among].mean()), 1e-6)
        if not self.model.recipe.columns:
            return np.full(len(X), everywhere)
        near = self._near if among is None else self._neighbours(among)
        Z = (coordinates(self.model.recipe.columns, self.model.used(X)) - self._centre) / self._spread
        beyond = np.maximum(np.maximum(Z - self._seen.max(axis=0), self._seen.min(axis=0) - Z), 0.0).sum(axis=1)
        return np.asarray((near.predict(Z) + everywhere) / 2 * (1 + beyond) + _DRIFT * beyond)
