"""What families are put together from: logarithms, neighbours, corrections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from littoral.profiling.features import Floats
from littoral.profiling.shapes import Physical


class Logarithmic:
    """A scikit-learn regressor of logarithms, on ``warp``-ed and standardised columns where distances count."""

    def __init__(self, inner: Any, warp: Callable[[Floats], Floats] | None = None, most_rows: int = 10**9) -> None:
        self._inner, self._warp, self._most_rows = inner, warp, most_rows

    def fit(self, X: Floats, y: Floats) -> None:
        """Learn, from some of the rows if there are too many."""
        picked = np.random.default_rng(len(y)).permutation(len(y))[: self._most_rows]
        Z, t = self._placed(X[picked], fit=True), np.log(y[picked])
        self._inner.fit(Z, t)
        self._range = t.min() - 1.0, t.max() + 1.0

    def predict(self, X: Floats) -> Floats:
        """Positive values, never far beyond those seen."""
        return np.asarray(np.exp(np.clip(self._inner.predict(self._placed(X)), *self._range)))

    def _placed(self, X: Floats, *, fit: bool = False) -> Floats:
        if self._warp is None:
            return X
        Z = self._warp(X)
        if fit:
            self._centre, self._spread = Z.mean(axis=0), np.maximum(Z.std(axis=0), 1e-9)
        return np.asarray((Z - self._centre) / self._spread)


class Nearest:
    """The mean of so many neighbours (of all rows, where there are fewer), the nearer the more."""

    def __init__(self, count: int) -> None:
        self._count = count

    def fit(self, X: Floats, y: Floats) -> None:
        """Remember."""
        from sklearn.neighbors import KNeighborsRegressor

        self._inner = KNeighborsRegressor(n_neighbors=min(self._count, len(y)), weights="distance").fit(X, y)

    def predict(self, X: Floats) -> Floats:
        """Values between those seen."""
        return np.asarray(self._inner.predict(X))


class Corrected:
    """The physical model times what boosted trees learn of its relative errors; both keep the signs."""

    def __init__(self, physical: Physical, correction: Logarithmic) -> None:
        self._physical, self._correction = physical, correction

    def fit(self, X: Floats, y: Floats) -> None:
        """Learn the one, then the other."""
        self._physical.fit(X, y)
        self._correction.fit(X, y / self._physical.predict(X))

    def predict(self, X: Floats) -> Floats:
        """Positive values."""
        return self._physical.predict(X) * self._correction.predict(X)


class Silent:
    """LightGBM without its remarks on column names that it made up itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def fit(self, X: Floats, t: Floats) -> None:
        """Learn."""
        self._inner.fit(X, t)

    def predict(self, X: Floats) -> Floats:
        """One value per row."""
        return np.asarray(self._inner.booster_.predict(X, num_threads=1))
