"""A Gaussian process whose length scales are sought on few rows and used on all: Matérn plus noise, about a trend."""

from __future__ import annotations

import warnings

import numpy as np

from littoral.profiling.features import Floats


class Process:
    """One length scale per column; ``smoothness`` is Matérn's nu; a ``trend`` is linear in all columns."""

    def __init__(self, *, smoothness: float, trend: bool, search_rows: int) -> None:
        self._smoothness, self._trend, self._search_rows = smoothness, trend, search_rows

    def fit(self, X: Floats, t: Floats) -> None:
        """Seek the scales by likelihood, then condition on every row."""
        from sklearn.gaussian_process import GaussianProcessRegressor

        few = np.random.default_rng(len(t)).permutation(len(t))[: self._search_rows]
        search = GaussianProcessRegressor(self._kernel(X.shape[1]), optimizer=_briefly, normalize_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a scale at its bound is a column that does not matter
            search.fit(X[few], t[few])
        self._final = GaussianProcessRegressor(search.kernel_, optimizer=None, normalize_y=True)
        self._final.fit(X, t)

    def predict(self, X: Floats) -> Floats:
        """The mean."""
        return np.asarray(self._final.predict(X))

    def _kernel(self, columns: int) -> object:
        from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

        matern = Matern([2.0] * columns, length_scale_bounds=(0.1, 100.0), nu=self._smoothness)
        around = ConstantKernel(1.0, (1e-2, 1e2)) * matern + WhiteKernel(1e-2, (1e-6, 1.0))
        return around + ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, (1e-2, 1e2)) if self._trend else around


def _briefly(objective: object, start: Floats, bounds: Floats) -> tuple[Floats, float]:
    """A few dozen steps uphill; where they end is good enough."""
    from scipy.optimize import minimize

    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 25})
    return found.x, float(found.fun)
