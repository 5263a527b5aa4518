"""The five learned functions of a device kind and a task (Deep-Edge, IC2E'20): what planners and policies ask.

EstComputeTime, EstUpdateTime, EstState, EstExecTime and GetMaxBatchSize. Every one takes single states or thousands,
and says besides the mean where nine in ten new measurements would lie (``level`` None: the mean alone, much sooner).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from littoral.continuum.catalogue import find_kind
from littoral.continuum.device import Workload
from littoral.document import suggest
from littoral.errors import InputError
from littoral.profiling.automl import Budget, search
from littoral.profiling.conformal import Calibrated
from littoral.profiling.features import (
    APP,
    FORETOLD,
    TRAINING,
    Columns,
    Company,
    Data,
    Floats,
    States,
    app_data,
    app_of,
    function,
    matrix,
    state_columns,
    training_data,
)
from littoral.profiling.prior import Prior
from littoral.profiling.profile import Key, Profile
from littoral.profiling.spread import LEAST_S, Z95, through

LATE = 0.005  # of an app's periods, where its deadline is said to be kept
_MOST_GUESSED = 4096  # samples in a batch, where none was measured


class Estimator(Protocol):
    """One function, learned or guessed: rows of ``columns`` in, values out."""

    @property
    def known(self) -> bool: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    def predict(self, X: Floats) -> Floats: ...
    def interval(self, X: Floats, level: float = 0.9) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Means and the ends of their intervals, one per row; not ``known`` means guessed from the catalogue."""

    mean: Floats
    low: Floats
    high: Floats
    known: bool


def fit(profile: Profile, *, budget: Budget | None = None, seed: int = 0, jobs: int = 1) -> Profile:
    """The profile with a model chosen for each function of each pair and app, by so many processes at once."""
    keys, tables = zip(*everything(profile), strict=True)
    find = partial(search, budget=budget, seed=seed)
    if jobs == 1:
        return replace(profile, choices=dict(zip(keys, map(find, tables), strict=True)))
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return replace(profile, choices=dict(zip(keys, pool.map(find, tables), strict=True)))


def estimators(profile: Profile, kind: str, task: str, *, guess: Workload | None = None) -> Estimators:
    """The functions of a pair. One that was not measured is refused, unless ``guess`` says what the task weighs."""
    if (kind, task) not in profile.pairs():
        if guess is None:
            wanted, known = f"{kind} with {task}", [f"{k} with {t}" for k, t in profile.pairs()]
            raise InputError(f"nothing was measured on {wanted}", remedy=f"profile it; {suggest(wanted, known)}")
        return Estimators(profile, kind, task, guess)
    if any(Key(kind, task, name) not in profile.choices for name in TRAINING):
        raise InputError(f"no models were chosen for {kind} with {task}", remedy="fit the profile first")
    return Estimators(profile, kind, task, None)


class Estimators:
    """What training a task takes on a kind of device, and what it does to it. Models are fitted when first asked."""

    def __init__(self, profile: Profile, kind: str, task: str, guess: Workload | None) -> None:
        self.kind, self.task, self.known = kind, task, guess is None
        self._profile, self._guess = profile, guess
        self._described = find_kind(kind) if guess is not None else None
        self._ready: dict[str, Estimator] = {}

    def estimator(self, name: str) -> Estimator:
        """One function by its name: compute, update, a metric of the state, exec:APP or tail:APP."""
        if name not in self._ready:
            self._ready[name] = self._made(name)
        return self._ready[name]

    def compute_time(self, before: States, batch: ArrayLike, *, level: float | None = 0.9) -> Estimate:
        """Seconds per sample."""
        return self._asked("compute", matrix(function("compute"), before, batch=batch), level)

    def update_time(
        self, before: States, batch: ArrayLike, server: States, company: Company, *, level: float | None = 0.9
    ) -> Estimate:
        """Seconds per batch for push, update and pull."""
        X = matrix(
            function("update"),
            before,
            batch=batch,
            server=server,
            workers=company.workers,
            batch_mean=company.batch_mean,
            batch_max=company.batch_max,
        )
        return self._asked("update", X, level)

    def state(self, before: States, batch: ArrayLike, *, level: float | None = 0.9) -> dict[str, Estimate]:
        """Metrics during training (95th percentiles), by name."""
        return {
            name: self._asked(name, matrix(function(name), before, batch=batch), level) for name in FORETOLD
        }  # fmt: skip

    def after(self, before: States, batch: ArrayLike) -> Columns:
        """The state during training as columns; metrics that are not foretold stay as they were."""
        foretold = {name: self._mean(name, matrix(function(name), before, batch=batch)) for name in FORETOLD}
        return state_columns(before) | foretold

    def exec_time(self, app: str, before: States, batch: ArrayLike = 0, *, level: float | None = 0.9) -> Estimate:
        """Seconds that an app takes on the mean, in a state without training and beside training with ``batch``."""
        return self._latency(f"exec:{app}", before, batch, level)

    def tail_time(self, app: str, before: States, batch: ArrayLike = 0, *, level: float | None = 0.9) -> Estimate:
        """Seconds that 95 of 100 of its periods take at most."""
        return self._latency(f"tail:{app}", before, batch, level)

    def longest_time(self, app: str, before: States, batch: ArrayLike = 0, *, late: float = LATE) -> Floats:
        """Seconds that all but a share ``late`` of its periods take at most: the end of an interval for single ones.

        Windows are too short to measure that. It follows from the mean and the 95th percentile, for latencies that are
        log-normal, and from how far off the foretold mean may be: half of its interval for nine in ten is 1.64
        standard deviations. (The interval of the 95th percentile is no measure of that: in a window of ten periods
        their 95th percentile is mostly chance.)
        """
        mean, tail = self.exec_time(app, before, batch), self.tail_time(app, before, batch, level=None).mean
        doubt = np.log(np.maximum(mean.high, LEAST_S) / np.maximum(mean.mean, LEAST_S)) / Z95
        return through(mean.mean, tail).longest(late, doubt)

    def _latency(self, name: str, before: States, batch: ArrayLike, level: float | None) -> Estimate:
        """As measured beside training; of an app that never was, in the state that training is to bring about."""
        if np.any(batch) and not self._crowded(app_of(name)):
            before, batch = self.after(before, batch), 0
        return self._asked(name, matrix(function(name), before, beside=batch), level)

    def _crowded(self, app: str) -> bool:
        return any(row.beside for row in self._profile.app_rows_of(self.kind, app))

    def max_batch(
        self, before: States, *, limit: float = 0.9, level: float | None = 0.9, most: int | None = None
    ) -> NDArray[np.int64]:
        """The largest batch whose memory stays below ``limit``; 0 where none does.

        Memory counts with the high end of its interval (``level`` None: its mean). No batch above the largest one
        measured is returned, unless ``most`` allows it.
        """
        top = self.largest_measured() if most is None else most
        count = len(matrix(function("memory"), before, batch=1))
        low, high = np.zeros(count, np.int64), np.full(count, top + 1, np.int64)
        while (high - low > 1).any():  # INVARIANT: low fits, high does not
            middle = (low + high) // 2
            fits = self._fits(before, np.maximum(middle, 1), limit, level) | (middle == 0)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def _fits(self, before: States, batch: NDArray[np.int64], limit: float, level: float | None) -> NDArray[np.bool_]:
        verdict = np.ones(len(batch), bool)
        for name in ("memory", "gpu_memory"):
            X, model = matrix(function(name), before, batch=batch), self.estimator(name)
            verdict &= (model.predict(X) if level is None else model.interval(X, level)[1]) <= limit
        return verdict

    def largest_measured(self) -> int:
        """The largest batch that was measured; a bold guess where none was."""
        measured = [row.batch for row in self._profile.training_of(self.kind, self.task)]
        return max(measured, default=_MOST_GUESSED)

    def _mean(self, name: str, X: Floats) -> Floats:
        return self.estimator(name).predict(X)

    def _asked(self, name: str, X: Floats, level: float | None) -> Estimate:
        model = self.estimator(name)
        mean = model.predict(X)
        low, high = (mean, mean) if level is None else model.interval(X, level)
        return Estimate(mean=mean, low=low, high=high, known=model.known)

    def _made(self, name: str) -> Estimator:
        if app_of(name):
            return self._app(name)
        if self._guess is not None and self._described is not None:
            return Prior(name, self._described, self._guess)
        rows = self._profile.training_of(self.kind, self.task)
        choice = self._profile.choices[Key(self.kind, self.task, name)]
        return Calibrated(choice.recipe, training_data(function(name), rows))

    def _app(self, name: str) -> Estimator:
        app, choice = app_of(name), self._profile.choices.get(Key(self.kind, "", name))
        if choice is None:
            remedy = f"measure it and fit; {suggest(app, self._profile.apps_of(self.kind))}"
            raise InputError(f"no model of app {app!r} on {self.kind}", remedy=remedy)
        rows = self._profile.app_rows_of(self.kind, app)
        return Calibrated(choice.recipe, app_data(function(name), rows))


def everything(profile: Profile) -> Iterator[tuple[Key, Data]]:
    """What there is to learn: every function, with its rows."""
    for kind, task in profile.pairs():
        rows = profile.training_of(kind, task)
        for name in TRAINING:
            yield Key(kind, task, name), training_data(function(name), rows)
    for kind in sorted({row.kind for row in profile.apps}):
        for app in profile.apps_of(kind):
            for asked in (function(f"{each}:{app}") for each in APP):
                yield Key(kind, "", asked.name), app_data(asked, profile.app_rows_of(kind, app))
