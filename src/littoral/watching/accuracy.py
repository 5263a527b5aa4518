"""Deep-Edge's accuracy monitor: how many epochs are still worth it, re-estimated after every evaluation.

What may follow is drawn from learning curves fitted to resampled residuals, each of a shape chosen by how far it is
believed; on these futures, and with the noise of late, rests how many epochs are foretold and how sure that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from littoral.errors import InputError
from littoral.watching.learning_curves import FEWEST, SHAPES, Floats, fit, trust

RESAMPLED = 100  # futures: with fewer, chance moves a stop by epochs
LEVEL = 0.9  # how often the end should lie in the interval: what users expect of one
_PARAMETERS = 3  # that a fit bends to the noise: as much is missing from its residuals
_NOISY = 5  # residuals at least that noise is drawn from: fewer say little of it
_PATIENT = 0.3  # of the epochs left (of half of all, later) must bring no gain: a stop that saves more needs more proof
_EARLIEST = 0.9  # of the futures count for what is foretold: the last ones just run until the user's maximum
_FURTHEST = 400  # evaluations that are looked ahead at most: more would cost time and change nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """After so many epochs training is over: with the target reached, or with nothing more to gain.

    Nine times out of ten it should be between ``low`` and ``high``. Never more than the user allows.
    """

    epochs: float
    low: float
    high: float
    final: float  # the accuracy foretold at the last epoch that the user allows


@dataclass
class AccuracyMonitor:
    """Told every evaluation, it says when training should end.

    Without a ``target``, training is over when all the epochs that are left are expected to better the best accuracy
    by less than ``gain``, and it has not been bettered by more for long: for ``patience`` epochs, and for three tenths
    of those that are left (of half of ``most_epochs``, later). Never before three evaluations, never after
    ``most_epochs``.
    """

    most_epochs: float
    target: float | None = None
    gain: float = 0.002
    patience: float = 3.0
    seed: int = 0
    resampled: int = RESAMPLED  # futures that are drawn
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
            return "target" if np.median(self.accuracies[-FEWEST:]) >= self.target else ""
        return "plateau" if self.epochs[-1] >= forecast.epochs else ""

    def _forecast(self) -> Forecast:
        ahead = self._ahead()
        futures, final = self._futures(ahead)
        ends = self._plateaus(futures, ahead) if self.target is None else _first(self._reached(futures), ahead)
        low, high = np.quantile(ends, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
        epochs = _typical(ends)
        return Forecast(epochs=epochs, low=min(float(low), epochs), high=max(float(high), epochs), final=final)

    def _plateaus(self, futures: Floats, ahead: Floats) -> Floats:
        """When each future ends training without a target: all now, or none before the next evaluation."""
        left = self._left(futures)
        if left[:, 0].mean() < self.gain and self._awaited(ahead[:1])[0] <= ahead[0]:
            return np.full(len(left), ahead[0])
        return np.asarray(np.maximum(self._awaited(_first(left < self.gain, ahead)), ahead[:2][-1]))

    def _futures(self, ahead: Floats) -> tuple[Floats, float]:
        """Accuracies that may follow, one row each, beginning with the present one; and the last one of the fit."""
        k, y = np.array(self.epochs), np.array(self.accuracies)
        belief, rng = trust(k, y), np.random.default_rng((self.seed, len(k)))
        fits = [fit(name, k, y[None]) for name in SHAPES]
        fitted, final = (belief @ [fit.at(epochs)[0] for fit in fits] for epochs in (k, ahead[-1:]))
        residuals = (y - fitted) * np.sqrt(len(k) / max(1, len(k) - _PARAMETERS))
        again = np.clip(fitted + rng.choice(residuals, (self.resampled, len(k))), 0.0, 1.0)
        parts = np.split(again, np.cumsum(rng.multinomial(self.resampled, belief))[:-1])
        trends = np.concatenate([fit(name, k, part).at(ahead) for name, part in zip(SHAPES, parts, strict=True)])
        recent = residuals[-max(_NOISY, len(k) // 3) :]  # noise shrinks as training settles
        futures = trends + rng.choice(recent, trends.shape)
        futures[:, 0] = y[-1]
        return futures, float(final[0])

    def _awaited(self, risen: Floats) -> Floats:
        """When patience ends that begins at these epochs; at the present one, it began with the best so far."""
        now, accuracies = self.epochs[-1], np.array(self.accuracies)
        before = self.epochs[int(np.argmax(accuracies >= accuracies.max() - self.gain))]
        began = np.where(risen > now, risen, before)
        least = max(self.patience, _PATIENT * self.most_epochs / 2)
        waited = np.maximum(began + least, (began + _PATIENT * self.most_epochs) / (1 + _PATIENT))
        return np.asarray(np.clip(waited, now, max(now, self.most_epochs)))

    def _ahead(self) -> Floats:
        """When evaluations may follow: now, then as often as so far, to the last epoch that is allowed."""
        now, last = self.epochs[-1], max(self.epochs[-1], self.most_epochs)
        each = (now - self.epochs[0]) / (len(self.epochs) - 1)
        return np.linspace(now, last, min(_FURTHEST, 1 + int(np.ceil((last - now) / each))))

    def _reached(self, futures: Floats) -> NDArray[np.bool_]:
        """At which evaluations the median of the last three of each future is at the target."""
        before = np.broadcast_to(self.accuracies[-FEWEST:-1], (len(futures), FEWEST - 1))
        threes = sliding_window_view(np.concatenate([before, futures], axis=1), FEWEST, axis=1)
        return np.asarray(np.median(threes, axis=2) >= self.target)

    def _left(self, futures: Floats) -> Floats:
        """How much better than the best until then each future will still get."""
        best = np.maximum.accumulate(np.clip(futures, max(self.accuracies), 1.0), axis=1)
        return np.asarray(best[:, -1:] - best)


def _first(holds: NDArray[np.bool_], epochs: Floats) -> Floats:
    """Of every row, the epoch at which it first holds, or the last."""
    return np.asarray(np.where(holds.any(axis=1), epochs[holds.argmax(axis=1)], epochs[-1]))


def _typical(ends: Floats) -> float:
    """The geometric mean of most ends: some are soon and some late, and a median would jump between these."""
    earliest = np.sort(ends)[: int(np.ceil(_EARLIEST * len(ends)))]
    return float(np.clip(np.exp(np.log(earliest).mean()), ends.min(), ends.max()))
