"""Learning curves fitted to the accuracies so far, and how far each shape of them is to be believed.

Three shapes: a power law, an exponential and a logistic curve. Each is a sum of two known functions once one or two of
its parameters are given, so all are solved on a grid of these in one go, the recent third of the points weighing most
(Optimus, EuroSys 2018). A shape is believed as much as it foretold the last fifth of the points from the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 3  # evaluations before anything is said: as many as a curve has parameters
_NOISE = 0.002  # of an accuracy: shapes that are closer are as good as each other, the validation set tells no more
_RECENT = 4.0  # times what a third of the points weighs, the next weighs: the first epochs follow another law
_SPEEDS = np.geomspace(0.02, 8.0, 40)  # of powers and exponentials: from almost a line to one step
_STEEPNESS = np.geomspace(0.1, 4.0, 32)  # of logistic curves, likewise
_MIDDLES = np.linspace(-0.5, 2.0, 76)  # of these, in epochs so far: the steepest part is over, or is to come
SHAPES = ("power", "exponential", "logistic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Curves of one shape, one per row: ``level + rise * basis``, the basis by its parameters."""

    name: str
    level: Floats
    rise: Floats
    parameters: Floats

    def at(self, epochs: Floats) -> Floats:
        """Accuracies, inside what is possible."""
        basis = _basis(self.name, self.parameters, epochs)
        return np.asarray(np.clip(self.level[:, None] + self.rise[:, None] * basis, 0.0, 1.0))


def _basis(name: str, parameters: Floats, epochs: Floats) -> Floats:
    """Of every row of parameters, the function of the epochs that rises to the level."""
    k = np.maximum(epochs, 1e-3)
    if name == "power":
        return np.asarray(-(k ** -parameters[:, :1]))
    if name == "exponential":
        return np.asarray(-np.exp(-parameters[:, :1] * k))
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(-parameters[:, :1] * (k - parameters[:, 1:]), -60, 60))))


def _grid(name: str, epochs: Floats) -> Floats:
    if name != "logistic":
        return _SPEEDS[:, None] / (1.0 if name == "power" else max(1.0, epochs[-1] / 8))
    steep, middle = np.meshgrid(_STEEPNESS / max(1.0, epochs[-1] / 8), _MIDDLES * epochs[-1])
    return np.stack([steep.ravel(), middle.ravel()], axis=1)


def _weights(count: int) -> Floats:
    return np.asarray(_RECENT ** np.minimum(2, 3 * np.arange(count) // count))


def fit(name: str, epochs: Floats, accuracies: Floats) -> Curves:
    """The best curve of a shape for every row of accuracies; levels are at most 1, and no curve falls."""
    parameters, weights = _grid(name, epochs), _weights(len(epochs))
    basis = _basis(name, parameters, epochs)
    level, rise = _lines(basis, accuracies, weights, free=name != "logistic")
    x, xx, xy = (basis @ weights)[:, None], ((basis**2) @ weights)[:, None], (basis * weights) @ accuracies.T
    # The squared deviation, less what is the same for all parameters.
    errors = level * (level * weights.sum() + 2 * (rise * x - accuracies @ weights)) + rise * (rise * xx - 2 * xy)
    chosen = errors.argmin(axis=0), np.arange(len(accuracies))
    return Curves(name=name, level=level[chosen], rise=rise[chosen], parameters=parameters[chosen[0]])


def _lines(basis: Floats, accuracies: Floats, weights: Floats, *, free: bool) -> tuple[Floats, Floats]:
    """Least squares of ``level + rise * basis``: (parameters, rows) each. Not ``free``: the level is 0."""
    total = weights.sum()
    xx, xy = (basis**2) @ weights, (basis * weights) @ accuracies.T
    if not free:
        rise = np.clip(xy / np.maximum(xx, 1e-12)[:, None], 0.0, 1.0)
        return np.zeros_like(rise), rise
    x, y = (basis @ weights / total)[:, None], (accuracies @ weights / total)[None]
    spread = np.maximum(xx[:, None] / total - x**2, 1e-12)
    rise = np.maximum((xy / total - x * y) / spread, 0.0)
    level = y - rise * x
    over = level > 1.0  # the curve through level 1 that fits best
    capped = np.maximum(-((basis * weights) @ (1.0 - accuracies).T) / np.maximum(xx, 1e-12)[:, None], 0.0)
    return np.where(over, 1.0, level), np.where(over, capped, rise)


def trust(epochs: Floats, accuracies: Floats) -> Floats:
    """What each shape's word is worth: less, the worse it foretells the last fifth of the points (or fits, if few)."""
    count = len(epochs)
    seen = count - max(1, count // 5) if count >= 2 * FEWEST else count
    errors = []
    for name in SHAPES:
        off = fit(name, epochs[:seen], accuracies[None, :seen]).at(epochs)[0] - accuracies
        errors.append(np.mean(off[seen:] ** 2) if seen < count else np.mean(off**2))
    worth = 1.0 / (np.array(errors) + _NOISE**2) ** 2
    return np.asarray(worth / worth.sum())
