"""Which columns matter: how much worse predictions of unseen points get when a column is shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from littoral.profiling.features import Data, Floats
from littoral.profiling.fitted import CONSTANT, Model, Recipe, folds, relative_errors

_PROBE: Mapping[str, float] = {"trees": 120, "rate": 0.1, "leaves": 8, "least": 3}
_PROBE_OF_FEW: Mapping[str, float] = {"extra": 1, "least": 1, "columns": 1.0}
_FEW_ROWS = 100
_REPEATS = 3
_LEAST = 0.05  # of the error with all columns: what matters less is left out
_WEAK = 0.5  # of that error: what matters less may only repeat others, as load repeats utilisation
_ECHO = 1.01  # how much worse, by leaving out one that repeats others
_SLACK = 1.03  # how much worse predictions may get by leaving columns out


def importances(data: Data, seed: int) -> dict[str, float]:
    """By column: by how much the mean relative error grows when it is shuffled, as a share of that error."""
    varying = [name for name, column in zip(data.columns, data.X.T, strict=True) if varies(column)]
    if not varying or not varies(data.y):
        return dict.fromkeys(data.columns, 0.0)
    rng = np.random.default_rng(seed)
    found = {name: 0.0 for name in data.columns}
    parts = folds(data.points, 4, seed)
    plain = 0.0
    for part in parts:
        model, test = _probe(data.rows(~part), varying, seed), data.rows(part)
        before = _error(model, test, test.X)
        plain += before
        for name in varying:
            found[name] += _shuffled(model, test, name, rng) - before
    return {name: float(grown / max(plain, 1e-12)) for name, grown in found.items()}


def relevant(data: Data, found: Mapping[str, float], seed: int) -> tuple[str, ...]:
    """The columns worth keeping: the most important ones that predict as well as all, less those that others repeat."""
    ranked = sorted((name for name in data.columns if found[name] > 0), key=lambda name: -found[name])
    count = sum(found[name] > _LEAST for name in ranked)
    goal = _SLACK * _cross_error(data, ranked, seed) if count < len(ranked) else np.inf
    while count < len(ranked) and _cross_error(data, ranked[:count], seed) > goal:
        count += 1
    kept = _without_echoes(data, ranked[:count], found, seed)
    return tuple(name for name in data.columns if name in kept)


def _without_echoes(data: Data, kept: list[str], found: Mapping[str, float], seed: int) -> list[str]:
    """Leave out weak columns, the weakest first, as long as predictions hardly get worse."""
    weak = [name for name in reversed(kept) if found[name] < _WEAK]
    error = _cross_error(data, kept, seed) if weak else 0.0
    for name in weak:
        rest = [other for other in kept if other != name]
        without = _cross_error(data, rest, seed)
        if without <= _ECHO * error:
            kept, error = rest, min(error, without)
    return kept


def varies(column: Floats) -> bool:
    """Whether there is anything to learn from it."""
    seen = column[~np.isnan(column)]
    return bool(seen.size and np.ptp(seen) > 1e-12)


def _probe(data: Data, columns: list[str], seed: int) -> Model:
    """A quick model. Boosting splits few rows hardly at all; a forest does, but only without signs."""
    if not columns:
        return Model(CONSTANT, data)
    if len(data.y) >= _FEW_ROWS:
        return Model(Recipe(family="boosting", settings=_PROBE, columns=tuple(columns), seed=seed), data)
    recipe = Recipe(family="forest", settings=_PROBE_OF_FEW, columns=tuple(columns), seed=seed)
    return Model(recipe, replace(data, signs=(0,) * len(data.columns)))


def _error(model: Model, test: Data, X: Floats) -> float:
    return float(relative_errors(model.predict(X), test).mean())


def _shuffled(model: Model, test: Data, name: str, rng: np.random.Generator) -> float:
    at, errors = test.columns.index(name), []
    for _ in range(_REPEATS):
        X = test.X.copy()
        X[:, at] = rng.permutation(X[:, at])
        errors.append(_error(model, test, X))
    return float(np.mean(errors))


def _cross_error(data: Data, columns: list[str], seed: int) -> float:
    errors = []
    for part in folds(data.points, 4, seed):
        test = data.rows(part)
        errors.append(_error(_probe(data.rows(~part), columns, seed), test, test.X))
    return float(np.mean(errors))
