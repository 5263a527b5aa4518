"""What the figures of a profile show, as plain numbers: step times, contention, responses, speed-ups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from littoral.errors import InputError
from littoral.profiling.estimators import Estimators
from littoral.profiling.features import SIZES, Floats, function, training_data
from littoral.profiling.profile import Key, Profile
from littoral.profiling.rows import TrainingRow

BASELINE = "fair"
_GRID = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The windows of one kind of device with one task."""

    label: str
    kind: str
    task: str
    rows: tuple[TrainingRow, ...]


def series_of(profile: Profile) -> list[Series]:
    """A series per pair; the label names the task only where the kind has several."""
    pairs = profile.pairs()
    kinds = [kind for kind, _ in pairs]
    return [
        Series(label=f"{kind}, {task}" if kinds.count(kind) > 1 else kind, kind=kind, task=task,
               rows=tuple(profile.training_of(kind, task)))
        for kind, task in pairs
    ]  # fmt: skip


def check_fitted(profile: Profile) -> None:
    """Refuse a profile that has nothing to show."""
    if not profile.choices:
        raise InputError("no models were chosen for these rows", remedy="fit the profile first")
    if not profile.training:
        raise InputError("no window of training was measured", remedy="run: littoral profile sweep")


# -- step times and contention ---------------------------------------------------------------------------


def step_seconds(row: TrainingRow) -> float:
    """Seconds per sample, the exchange included: what a step takes, over its batch."""
    return row.compute_s + row.update_s / row.batch


def beside_like(rows: Sequence[TrainingRow]) -> list[float]:
    """Every window's step time over the median of those with its batch; not a number where it is the only one."""
    by_batch: dict[int, list[float]] = {}
    for row in rows:
        by_batch.setdefault(row.batch, []).append(step_seconds(row))
    medians = {batch: float(np.median(times)) if len(times) > 1 else math.nan for batch, times in by_batch.items()}
    return [step_seconds(row) / medians[row.batch] for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Third:
    """Windows of a kind that are alike in load: their median load and step time, and quartiles beside like ones."""

    windows: int
    cpu: float
    step_s: float
    quartiles: tuple[float, float, float]


def outer_thirds(rows: Sequence[TrainingRow]) -> tuple[Third, Third]:
    """The third of the windows with the least processor use before training, and the one with the most."""
    ranked = sorted(zip(rows, beside_like(rows), strict=True), key=lambda pair: pair[0].before.cpu)
    count = max(1, len(ranked) // 3)
    return _third(ranked[:count]), _third(ranked[-count:])


def _third(pairs: Sequence[tuple[TrainingRow, float]]) -> Third:
    likes = [like for _, like in pairs if math.isfinite(like)] or [1.0]
    low, middle, high = (float(value) for value in np.quantile(likes, (0.25, 0.5, 0.75)))
    return Third(
        windows=len(pairs),
        cpu=float(np.median([row.before.cpu for row, _ in pairs])),
        step_s=float(np.median([step_seconds(row) for row, _ in pairs])),
        quartiles=(low, middle, high),
    )


# -- responses -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Measured points along one input, and the learned function along it with all else at its median."""

    label: str
    x: Floats
    y: Floats
    grid: Floats
    mean: Floats
    low: Floats
    high: Floats
    used: bool  # whether the model looks at this input


def response(profile: Profile, models: Estimators, series: Series, name: str, column: str) -> Response:
    """How a function answers to one of its columns, from the least to the greatest value measured."""
    data, model = training_data(function(name), series.rows), models.estimator(name)
    at = data.columns.index(column)
    grid = _grid(column, data.X[:, at])
    X = np.tile(_medians(data.X), (len(grid), 1))
    X[:, at] = grid
    low, high = model.interval(X)
    used = column in profile.choices[Key(series.kind, series.task, name)].recipe.columns
    return Response(label=series.label, x=data.X[:, at], y=data.y, grid=grid, mean=model.predict(X), low=low,
                    high=high, used=used)  # fmt: skip


def _grid(column: str, values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low])
    if column == "workers":
        return np.arange(low, high + 1)
    spaced = np.geomspace(low, high, _GRID) if column in SIZES else np.linspace(low, high, _GRID)
    return np.clip(spaced, low, high)


def _medians(X: Floats) -> Floats:
    """By column; not a number where nothing was measured, as with temperatures."""
    seen = [column[~np.isnan(column)] for column in X.T]
    return np.array([np.median(column) if column.size else np.nan for column in seen])


# -- experiments -----------------------------------------------------------------------------------------


def solved(times: Sequence[float]) -> list[float]:
    """The epoch times of the experiments that a solver found a plan for."""
    return [time for time in times if math.isfinite(time)]


def speedups(times: Mapping[str, Sequence[float]], solver: str) -> list[float]:
    """How many times shorter an epoch is than with equal shards, where both have a plan."""
    pairs = zip(times[BASELINE], times[solver], strict=True)
    return [fair / other for fair, other in pairs if math.isfinite(fair) and math.isfinite(other)]
