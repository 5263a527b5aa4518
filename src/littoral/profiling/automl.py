"""Which model suits a function best: a search over families and settings, judged on points that were not learned.

Successive halving: every candidate is tried on three folds of the stress points (with some tens of points, one fold
would choose by luck), the best third on the other two, the best third of these on five folds that are cut otherwise.
The test points are put aside before anything else, sensitivity included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, zip_longest

import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError
from littoral.profiling.families import FAMILIES, offered
from littoral.profiling.features import Data, Mask
from littoral.profiling.fitted import CONSTANT, Model, Recipe, folds, relative_errors
from littoral.profiling.sensitivity import importances, relevant, varies

TEST_SHARE = 0.16
FEWEST_POINTS = 8
_RUNGS = ((0, 1, 2), (3, 4), (5, 6, 7, 8, 9))  # the folds tried at each
_KEPT = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much searching is worth, per function.

    A limit in ``seconds`` makes the outcome depend on the machine's speed; ``trials`` alone does not.
    """

    trials: int = 30
    seconds: float = np.inf
    families: tuple[str, ...] = tuple(FAMILIES)
    splits: int = 1  # into points to learn from and points to test on; with several of them, every point is tested once


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a search found, and how well it does on points that it never saw."""

    recipe: Recipe
    train_points: int  # of the first split
    test_points: int
    train_rows: int
    test_rows: int
    mape: float  # mean relative error at the test points of all splits, against the means of their visits
    mape_sd: float
    importances: dict[str, float] = field(default_factory=dict)
    splits: int = 1


def search(data: Data, *, budget: Budget | None = None, seed: int = 0) -> Choice:
    """The best recipe for some data, and the errors of whole searches that do not see what they are tested on.

    With one split, the recipe is the one that was tested. With several, it is chosen anew from all points.
    """
    count = len(np.unique(data.points))
    if count < FEWEST_POINTS:
        remedy = f"measure at least {FEWEST_POINTS}"
        raise InputError(f"{count} stress points are too few to learn from", remedy=remedy)
    budget = budget or Budget()
    merged = data.merged()
    errors = []
    for aside in (splits := _splits(merged.points, budget.splits, seed)):
        train, test = merged.rows(~aside), merged.rows(aside)
        weights, recipe = _chosen(train, budget, seed)
        errors.append(relative_errors(Model(recipe, train).predict(test.X), test))
    if budget.splits > 1:
        weights, recipe = _chosen(merged, budget, seed)
    every, tested = np.concatenate(errors), np.unique(merged.points[splits[0]])
    return Choice(
        recipe=recipe,
        train_points=count - len(tested),
        test_points=len(tested),
        train_rows=int((~np.isin(data.points, tested)).sum()),
        test_rows=int(np.isin(data.points, tested).sum()),
        mape=float(every.mean()),
        mape_sd=float(every.std()),
        importances=weights,
        splits=len(splits),
    )


def _chosen(train: Data, budget: Budget, seed: int) -> tuple[dict[str, float], Recipe]:
    """What matters, and the best recipe, by these rows alone."""
    weights = importances(train, seed)
    columns = relevant(train, weights, seed)
    sets = _sets(train, columns) if varies(train.y) else []
    return weights, _best(train, sets, budget, seed) if sets else CONSTANT


def _splits(points: NDArray[np.int64], count: int, seed: int) -> list[Mask]:
    """The rows to test on: some points once, or every point in one of so many parts."""
    if count > 1:
        return folds(points, count, seed)
    distinct = np.random.default_rng(seed).permutation(np.unique(points))
    return [np.isin(points, distinct[: max(1, round(TEST_SHARE * len(distinct)))])]


def _sets(data: Data, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The columns that seemed to matter, and those that ought to: few rows do not tell reliably.

    The latter also with the pace of the device's cores, which matters where these are somebody else's, too.
    """
    varying = {name for name, column in zip(data.columns, data.X.T, strict=True) if varies(column)}
    physics = {name for name in data.physics if name in varying}
    wanted = [set(columns), physics, physics | (varying & {"pace"}) if physics else physics]
    ordered = [tuple(name for name in data.columns if name in names) for names in wanted]
    return [names for names in dict.fromkeys(ordered) if names]


def _best(data: Data, sets: Sequence[tuple[str, ...]], budget: Budget, seed: int) -> Recipe:
    deadline = time.monotonic() + budget.seconds
    parts = [*folds(data.points, 5, seed), *folds(data.points, 5, seed + 1)]
    each = replace(budget, trials=-(-budget.trials // len(sets)))
    running = [*(recipe for columns in sets for recipe in candidates(data.only(columns), each, seed)), CONSTANT]
    errors: dict[int, list[float]] = {i: [] for i in range(len(running))}
    alive = list(errors)
    for rung in _RUNGS:
        for i in alive:
            if time.monotonic() < deadline or not any(errors.values()):
                errors[i] += [_error(running[i], data, parts[k]) for k in rung if k < len(parts)]
        alive = sorted((i for i in alive if errors[i]), key=lambda i: (float(np.mean(errors[i])), i))
        alive = alive[: max(2, round(_KEPT * len(alive)))]
    return running[alive[0]]


def candidates(data: Data, budget: Budget, seed: int) -> Iterator[Recipe]:
    """Settings drawn without replacement, one family after the other, until there are ``trials``."""
    rng = np.random.default_rng(seed)
    names = [name for name in offered(data.signs) if name in budget.families]
    if not names:
        raise InputError("no family of models is left", remedy=f"choose from: {', '.join(offered(data.signs))}")
    decks = [_deck(name, data.columns, seed, rng) for name in names]
    drawn = [recipe for row in zip_longest(*decks) for recipe in row if recipe is not None]
    yield from drawn[: budget.trials]


def _deck(name: str, columns: Sequence[str], seed: int, rng: np.random.Generator) -> list[Recipe]:
    space = FAMILIES[name].space
    combinations = list(product(*space.values()))
    order = rng.permutation(len(combinations))
    return [
        Recipe(family=name, settings=dict(zip(space, combinations[i], strict=True)), columns=tuple(columns), seed=seed)
        for i in order
    ]


def _error(recipe: Recipe, data: Data, part: Mask) -> float:
    """On one fold; infinite where the numbers do not work out."""
    test = data.rows(part)
    try:
        model = Model(recipe, data.rows(~part))
    except (RuntimeError, np.linalg.LinAlgError):  # least squares or a covariance did not converge
        return np.inf
    return float(relative_errors(model.predict(test.X), test).mean())
