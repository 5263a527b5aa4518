"""Deep-Edge's accuracy monitor: how many epochs are still worth it, re-estimated after every evaluation.

Three shapes are fitted to the accuracies so far: a power law, an exponential and a logistic curve. Each is a sum of
two known functions once one or two of its parameters are given, so all are solved on a grid of these in one go, the
recent third of the points weighing most (Optimus, EuroSys 2018). What is foretold is their mean, each weighing as much
as it foretold the last fifth of the points from the others. Fits to resampled residuals tell how sure the estimate is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError

Floats = NDArray[np.float64]

FEWEST = 3  # evaluations before anything is said
RESAMPLED = 60
_NOISE = 0.002  # of an accuracy: closer shapes are as good as each other
LEVEL = 0.9
_SPEEDS = np.geomspace(0.02, 8.0, 40)  # of powers and exponentials
_STEEPNESS = np.geomspace(0.05, 8.0, 24)  # of logistic curves
_MIDDLES = np.linspace(-1.0, 3.0, 33)  # of these, in epochs so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """After so many epochs training is over: with the target reached, or with nothing more to gain.

    Nine times out of ten it should be between ``low`` and ``high``. Never more than the user allows.
    """

    epochs: float
    low: float
    high: float
    final: float  # the accuracy foretold at the last epoch that the user allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A curve: ``level + rise * basis``, the basis by its parameters."""

    name: str
    level: float
    rise: float
    parameters: tuple[float, ...]

    def at(self, epochs: Floats) -> Floats:
        """Accuracies, inside what is possible."""
        basis = _basis(self.name, np.array([self.parameters]), epochs)[0]
        return np.asarray(np.clip(self.level + self.rise * basis, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Mean:
    """Several curves, each with its weight."""

    shapes: tuple[Shape, ...]
    weights: tuple[float, ...]

    def at(self, epochs: Floats) -> Floats:
        """Accuracies."""
        return np.asarray(
            np.sum([w * shape.at(epochs) for w, shape in zip(self.weights, self.shapes, strict=True)], axis=0)
        )


@dataclass
class AccuracyMonitor:
    """Told every evaluation, it says when training should end.

    Without a ``target``, training is over when the next ``patience`` epochs are foretold to gain less than ``gain``,
    and the last ``patience`` have not gained more either. Never before three evaluations, never after ``most_epochs``.
    """

    most_epochs: float
    target: float | None = None
    gain: float = 0.002
    patience: float = 3.0
    seed: int = 0
    resampled: int = RESAMPLED  # fits that tell how sure a forecast is
    epochs: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    forecasts: list[Forecast | None] = field(default_factory=list)  # what was foretold after each evaluation

    def __post_init__(self) -> None:
        if not self.most_epochs > 0:
            raise InputError(f"at most {self.most_epochs} epochs", remedy="allow more than none")
        if not (self.gain > 0 and self.patience > 0):
            raise InputError(f"a gain of {self.gain} in {self.patience} epochs", remedy="give positive numbers")

    def add(self, epochs: float, accuracy: float) -> Forecast | None:
        """An evaluation after so many epochs in all; what is foretold now, or None with too few of them."""
        if self.epochs and epochs <= self.epochs[-1]:
            raise InputError(f"epoch {epochs:g} after epoch {self.epochs[-1]:g}", remedy="tell evaluations in order")
        if not 0 <= accuracy <= 1:
            raise InputError(f"an accuracy of {accuracy}", remedy="give a share from 0 to 1")
        self.epochs.append(float(epochs))
        self.accuracies.append(float(accuracy))
        self.forecasts.append(self._forecast() if len(self.epochs) >= FEWEST else None)
        return self.forecasts[-1]

    def forget_from(self, epochs: float) -> None:
        """Drop evaluations at or after so many epochs: training went back."""
        kept = sum(epoch < epochs for epoch in self.epochs)
        for record in (self.epochs, self.accuracies, self.forecasts):
            del record[kept:]

    @property
    def best(self) -> int:
        """Which evaluation was the best: its model is the one to keep."""
        return int(np.argmax(self.accuracies))

    def should_stop(self) -> str:
        """Why training should end now, or nothing."""
        if not self.epochs:
            return ""
        if self.epochs[-1] >= self.most_epochs:
            return "epochs"
        forecast = self.forecasts[-1]
        if forecast is None:
            return ""
        if self.target is not None:
            return "target" if self.accuracies[-1] >= self.target else ""
        return "plateau" if self.epochs[-1] >= forecast.epochs and not self._gained() else ""

    def _gained(self) -> bool:
        """Whether the last ``patience`` epochs brought more than ``gain``."""
        now = self.epochs[-1]
        before = [a for e, a in zip(self.epochs, self.accuracies, strict=True) if e <= now - self.patience]
        return not before or max(self.accuracies) > max(before) + self.gain

    def _forecast(self) -> Forecast:
        k, y = np.array(self.epochs), np.array(self.accuracies)
        weights = _trust(k, y)
        fitted = Mean(tuple(_fit(name, k, y[None])[0] for name in SHAPES), weights)
        residuals = y - fitted.at(k)
        noise = residuals[np.random.default_rng((self.seed, len(k))).integers(len(k), size=(self.resampled, len(k)))]
        again = np.clip(fitted.at(k) + noise, 0.0, 1.0)
        others = zip(*(_fit(name, k, again) for name in SHAPES), strict=True)
        low, high = np.quantile(
            [self._end(Mean(shapes, weights)) for shapes in others], [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]
        )
        epochs, final = self._end(fitted), float(fitted.at(np.array([self.most_epochs]))[0])
        return Forecast(epochs=epochs, low=min(float(low), epochs), high=max(float(high), epochs), final=final)

    def _end(self, shape: Mean) -> float:
        """When the target is reached or the plateau begins by a curve, no sooner than now."""
        now = self.epochs[-1]
        if now >= self.most_epochs:
            return self.most_epochs
        ahead = np.linspace(now, self.most_epochs, 400)
        foretold = shape.at(ahead)
        if self.target is not None:
            if max(self.accuracies) >= self.target:
                return now
            over = foretold >= self.target
        else:
            over = shape.at(ahead + self.patience) - foretold < self.gain
        return float(ahead[int(np.argmax(over))]) if over.any() else self.most_epochs


# -- fitting ------------------------------------------------------------------------------------------------------


def _basis(name: str, parameters: Floats, epochs: Floats) -> Floats:
    """Of every row of parameters, the function of the epochs that rises to the level."""
    k = np.maximum(epochs, 1e-3)
    if name == "power":
        return np.asarray(-(k ** -parameters[:, :1]))
    if name == "exponential":
        return np.asarray(-np.exp(-parameters[:, :1] * k))
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(-parameters[:, :1] * (k - parameters[:, 1:]), -60, 60))))


SHAPES = ("power", "exponential", "logistic")


def _grid(name: str, epochs: Floats) -> Floats:
    if name != "logistic":
        return _SPEEDS[:, None] / (1.0 if name == "power" else max(1.0, epochs[-1] / 8))
    steep, middle = np.meshgrid(_STEEPNESS / max(1.0, epochs[-1] / 8), _MIDDLES * epochs[-1])
    return np.stack([steep.ravel(), middle.ravel()], axis=1)


def _weights(count: int) -> Floats:
    """Every third of the points weighs four times as much in the deviation as the one before."""
    return np.asarray(16.0 ** np.minimum(2, 3 * np.arange(count) // count))


def _fit(name: str, epochs: Floats, accuracies: Floats) -> list[Shape]:
    """The best curve of a shape for every row of accuracies; levels are at most 1, and no curve falls."""
    parameters = _grid(name, epochs)
    basis, weights = _basis(name, parameters, epochs), _weights(len(epochs))
    level, rise = _lines(basis, accuracies, weights, free=name != "logistic")
    errors = np.zeros(level.shape)
    for i in range(len(epochs)):
        errors += weights[i] * (level + rise * basis[:, i : i + 1] - accuracies[:, i]) ** 2
    chosen = errors.argmin(axis=0)
    return [
        Shape(name=name, level=float(level[p, row]), rise=float(rise[p, row]), parameters=tuple(parameters[p].tolist()))
        for row, p in enumerate(chosen)
    ]


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


def _trust(epochs: Floats, accuracies: Floats) -> tuple[float, ...]:
    """What each shape's word is worth: less, the worse it foretells the last fifth of the points (or fits, if few)."""
    count = len(epochs)
    seen = count - max(1, count // 5) if count >= 2 * FEWEST else count
    errors = []
    for name in SHAPES:
        off = _fit(name, epochs[:seen], accuracies[None, :seen])[0].at(epochs) - accuracies
        errors.append(np.mean(off[seen:] ** 2) if seen < count else np.mean(off**2))
    worth = 1.0 / (np.array(errors) + _NOISE**2) ** 2
    return tuple((worth / worth.sum()).tolist())
