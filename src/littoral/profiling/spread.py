"""How an app's latencies spread between what is measured of them: their mean and their 95th percentile."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST_S = 1e-6  # models may foretell nothing at all
_NORMAL = NormalDist()
Z95 = _NORMAL.inv_cdf(0.95)


class Spread(NamedTuple):
    """Log-normal distributions: means and standard deviations of the logarithms."""

    mu: NDArray[np.float64]
    sigma: NDArray[np.float64]

    def longest(self, late: float, doubt: ArrayLike = 0.0) -> NDArray[np.float64]:
        """What all but a share ``late`` take at most; ``doubt`` is how far off means may be: sd of their logarithms."""
        return np.exp(self.mu + _NORMAL.inv_cdf(1 - late) * np.hypot(self.sigma, doubt))


def through(mean: ArrayLike, p95: ArrayLike) -> Spread:
    """The log-normal distribution with this mean and 95th percentile: log(p95 / mean) = Z95 sigma - sigma^2 / 2.

    None has a percentile beyond 3.87 means; there the percentile is kept, and the mean is more than asked for.
    """
    mean = np.maximum(mean, LEAST_S)
    p95 = np.maximum(p95, mean)
    sigma = Z95 - np.sqrt(np.maximum(0.0, Z95**2 - 2 * np.log(p95 / mean)))
    return Spread(np.log(p95) - Z95 * sigma, sigma)
