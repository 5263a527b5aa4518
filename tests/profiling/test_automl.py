"""The search: honest, deterministic, and monotone whatever it picks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import app_rows, training_rows

from littoral.errors import InputError
from littoral.profiling import automl
from littoral.profiling.automl import Budget, candidates, search
from littoral.profiling.families import FAMILIES, offered
from littoral.profiling.features import COMPUTE, Data, app_data, function, training_data
from littoral.profiling.fitted import Model, Recipe, folds, relative_errors
from littoral.profiling.lattice import ordered
from littoral.profiling.shapes import coordinates

COLUMNS = ("cpu", "gpu", "batch")
SMALL = Budget(trials=6)


@pytest.fixture(scope="module")
def data() -> Data:
    return training_data(COMPUTE, training_rows(40))


def _first(family: str) -> Recipe:
    return Recipe(
        family=family, settings={key: values[0] for key, values in FAMILIES[family].space.items()}, columns=COLUMNS
    )


# -- visits -----------------------------------------------------------------------------------------------------------


def _visited_twice(data: Data) -> Data:
    """Once a fifth too slow, once a fifth too fast; the second time, nobody told the temperature."""
    X = data.X.copy()
    X[:, data.columns.index("celsius")] = np.nan
    return replace(data, X=np.vstack([data.X, X]), y=np.concatenate([1.2 * data.y, 0.8 * data.y]),
                   points=np.tile(data.points, 2), settings=np.tile(data.settings, 2))  # fmt: skip


def test_visits_of_a_point_become_their_mean(data: Data) -> None:
    merged, order = _visited_twice(data).merged(), np.argsort(data.settings)
    assert np.allclose(merged.X, data.X[order], equal_nan=True) and np.allclose(merged.y, data.y[order])
    assert merged.points.tolist() == data.points[order].tolist()
    assert data.merged() is data


def test_errors_are_against_the_mean_of_the_visits(data: Data) -> None:
    once, twice = search(data, budget=SMALL), search(_visited_twice(data), budget=SMALL)
    assert twice.mape < 0.15 and (twice.train_rows, twice.test_rows) == (2 * once.train_rows, 2 * once.test_rows)


def test_with_several_splits_every_point_is_tested_once_and_the_model_learns_from_all(data: Data) -> None:
    tested = search(data, budget=replace(SMALL, splits=4))
    assert tested.splits == 4 and tested.train_points + tested.test_points == len(np.unique(data.points))
    parts = [set(data.points[aside].tolist()) for aside in automl._splits(data.points, 4, 0)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(np.unique(data.points))
    assert tested.mape < 0.15 and tested.recipe.columns


# -- no leakage -------------------------------------------------------------------------------------------------------


def test_no_point_is_in_two_folds(data: Data) -> None:
    parts = folds(data.points, 5, seed=3)
    assert np.sum(parts, axis=0).tolist() == [1] * len(data.y)
    assert len({(i, p) for i, part in enumerate(parts) for p in data.points[part]}) == 40


def test_the_number_of_a_point_does_not_help() -> None:
    """Each point has a level of its own that nothing explains: only a leak could predict it."""
    rng = np.random.default_rng(0)
    levels = np.exp(0.3 * rng.standard_normal(40))
    plain = app_data(function("exec:sift"), app_rows(40))
    secret = replace(plain, y=plain.y * levels[plain.points])
    told = replace(
        secret,
        columns=(*secret.columns, "point"),
        signs=(*secret.signs, 0),
        X=np.column_stack([secret.X, secret.points]),
    )
    budget = Budget(trials=6, families=("boosting", "forest", "neighbours"))
    with_number, without = search(told, budget=budget), search(secret, budget=budget)
    assert with_number.mape > 0.8 * without.mape
    assert with_number.mape > 0.15  # a random split of rows would promise a tenth of that
    shuffled = Model(replace(_first("forest"), columns=told.columns), told.rows(np.arange(len(told.y)) % 3 > 0))
    rest = told.rows(np.arange(len(told.y)) % 3 == 0)
    assert relative_errors(shuffled.predict(rest.X), rest).mean() < 0.5 * with_number.mape


def test_columns_of_noise_are_left_out(data: Data) -> None:
    assert not {"memory", "stalled", "celsius"} & set(search(data, budget=SMALL).recipe.columns)


def test_a_target_that_never_changes_needs_no_columns(data: Data) -> None:
    found = search(replace(data, y=np.full(len(data.y), 0.5)), budget=SMALL)
    assert found.recipe.columns == () and found.mape < 1e-3


def test_few_points_are_refused() -> None:
    with pytest.raises(InputError, match="5 stress points are too few"):
        search(training_data(COMPUTE, training_rows(5)))


# -- the search -------------------------------------------------------------------------------------------------------


def test_same_seed_same_choice(data: Data) -> None:
    assert search(data, budget=SMALL, seed=4) == search(data, budget=SMALL, seed=4)


def test_every_family_gets_a_turn(data: Data) -> None:
    drawn = list(candidates(data.only(COLUMNS), Budget(trials=12), seed=0))
    assert {recipe.family for recipe in drawn} == set(FAMILIES)
    assert len({(r.family, tuple(r.settings.items())) for r in drawn}) == len(drawn) == 12


def test_a_family_that_cannot_keep_the_signs_is_not_offered() -> None:
    assert "process" in offered([1, 0, -1]) and "process" in offered([0] * 9)
    assert "process" not in offered([1, 0, 0, 0, 0, -1])


def test_time_can_run_out(data: Data) -> None:
    assert search(data, budget=Budget(trials=30, seconds=0.0)).mape < 0.2


def test_columns_that_ought_to_matter_are_tried_even_if_none_seemed_to(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automl, "relevant", lambda train, weights, seed: ())
    found = search(replace(data, physics=COLUMNS), budget=SMALL)
    assert found.recipe.columns == COLUMNS and found.mape < 0.2


def test_so_is_the_pace_of_the_cores(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automl, "relevant", lambda train, weights, seed: ())
    X, pace = data.X.copy(), np.random.default_rng(2).uniform(100.0, 300.0, len(data.y))
    X[:, data.columns.index("pace")] = pace
    found = search(replace(data, X=X, y=data.y * pace / 100.0, physics=COLUMNS), budget=Budget(trials=12))
    assert set(found.recipe.columns) == {*COLUMNS, "pace"} and found.mape < 0.2


def test_a_family_by_wish(data: Data) -> None:
    assert search(data, budget=Budget(trials=2, families=("forest",))).recipe.family == "forest"
    with pytest.raises(InputError, match="no family of models is left"):
        search(data, budget=Budget(families=("forrest",)))


def test_a_temperature_that_was_not_always_taken_is_filled_in(data: Data) -> None:
    warm = data.X.copy()
    warm[::3, data.columns.index("celsius")] = 50.0
    model = Model(replace(_first("boosting"), columns=(*COLUMNS, "celsius")), replace(data, X=warm))
    assert np.isfinite(model.predict(data.X)).all()


# -- every family -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_and_keeps_the_signs(data: Data, family: str) -> None:
    model, rng = Model(_first(family), data), np.random.default_rng(1)
    fresh = training_data(COMPUTE, training_rows(30, seed=9))
    assert relative_errors(model.predict(fresh.X), fresh).mean() < 0.25
    for name, sign, low, high in (("cpu", 1, 0, 1), ("gpu", 1, 0, 1), ("batch", -1, 1, 100)):
        here = fresh.X.copy()
        here[:, data.columns.index(name)] = rng.uniform(low, high, len(here))
        further = here.copy()
        further[:, data.columns.index(name)] = rng.uniform(here[:, data.columns.index(name)], high)
        assert (sign * (model.predict(further) - model.predict(here)) >= -1e-12).all(), name


@given(st.lists(st.lists(st.floats(-5, 5), min_size=4, max_size=4), min_size=2, max_size=5))
def test_a_lattice_is_put_in_order_and_left_alone_when_it_is(values: list[list[float]]) -> None:
    once = ordered(np.array(values), [1, -1])
    assert (np.diff(once, axis=0) >= -1e-12).all() and (np.diff(once, axis=1) <= 1e-12).all()
    assert np.allclose(ordered(once, [1, -1]), once)


def test_without_the_extra_the_install_line_is_given() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('lightgbm', 'sklearn', 'scipy', 'torch'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Refuse())
import littoral.profiling.estimators, littoral.profiling.table
from littoral.errors import MissingExtra
from littoral.profiling.families import build
try:
    build('boosting', ['cpu'], [0], {}, 0)
except MissingExtra as error:
    assert "pip install 'littoral[profile]'" in str(error), error
else:
    raise SystemExit('no complaint')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_handful_of_rows_is_enough_for_every_family() -> None:
    few = training_data(COMPUTE, training_rows(8, batches=1))
    found = search(few, budget=Budget(trials=100))
    assert np.isfinite(found.mape) and found.train_rows == 7


def test_rates_have_degrees_in_coordinates() -> None:
    rates = coordinates(["memory_bytes_per_s"], np.array([[0.0], [1e6], [5e8], [2e9]]))[:, 0]
    assert (np.diff(rates) > 0).all() and np.diff(rates)[0] < 0.01 < 0.3 < np.diff(rates)[1]
    rises = coordinates(["cpu", "batch", "load"], np.array([[0.2, 2.0, 0.5], [0.9, 32.0, 3.0], [1.2, 64.0, 9.0]]))
    assert (np.diff(rises, axis=0) > 0).all() and rises[:, 0].max() == 1.0
