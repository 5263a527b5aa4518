"""A profile on disk: the same rows and predictions come back, and what is broken is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import app_rows, training_rows

from commands import here
from littoral.errors import InputError
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.features import TRAINING, function, training_data
from littoral.profiling.profile import Profile, load, save
from littoral.profiling.rows import AppRow, State, TrainingRow
from littoral.profiling.sheets import read, written

SMALL = Profile(training=training_rows(3), apps=app_rows(3))


def _spoil(folder: Path, name: str, line: int, old: str, new: str) -> None:
    lines = (folder / name).read_text().splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    (folder / name).write_text("\n".join(lines) + "\n")


def test_it_comes_back_as_it_was(fitted: Profile, tmp_path: Path) -> None:
    save(fitted, tmp_path / "deep" / "profile")
    assert load(tmp_path / "deep" / "profile") == fitted
    assert sorted(path.name for path in (tmp_path / "deep" / "profile").iterdir()) == [
        "apps.csv",
        "choices.json",
        "training.csv",
    ]


def test_same_predictions_after_save_and_load(fitted: Profile, nano: Estimators, tmp_path: Path) -> None:
    save(fitted, tmp_path)
    again = estimators(load(tmp_path), "jetson-nano", "digits")
    for name in TRAINING:
        X = training_data(function(name), training_rows(10, seed=5)).X
        assert np.array_equal(nano.estimator(name).predict(X), again.estimator(name).predict(X)), name
        assert np.array_equal(nano.estimator(name).interval(X), again.estimator(name).interval(X)), name


@given(st.floats(0, 1e9), st.floats(-40, 90) | st.none(), st.text(min_size=1).filter(lambda s: "\r" not in s))
def test_rows_keep_every_digit_and_letter(value: float, celsius: float | None, name: str) -> None:
    row = replace(SMALL.apps[0], device=name, state=State(disk_bytes_per_s=value, celsius=celsius))
    assert read(AppRow, written(AppRow, [row]), Path("a.csv")) == (row,)


def test_choices_for_other_rows_are_not_used(fitted: Profile, tmp_path: Path) -> None:
    save(fitted, tmp_path)
    text = (tmp_path / "apps.csv").read_text().splitlines()
    (tmp_path / "apps.csv").write_text("\n".join(text[:-1]) + "\n")
    found = load(tmp_path)
    assert len(found.apps) == len(fitted.apps) - 1 and found.choices == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jetson-nano", "", r"training\.csv:3: kind is empty; correct this row or delete it"),
        ("d0,", "", r"training\.csv:3: 46 values for 47 columns"),
        ("0.", "nan.", r"training\.csv:3: before_cpu: 'nan\.\d+' is not a number"),
        ("0.", "-0.", r"training\.csv:3: before_cpu: '-0\.\d+' cannot be measured"),
        ("0.", "1e999+", r"training\.csv:3: before_cpu: .* is not a number"),
        ("d0", '"d0', r"training\.csv:\d+: "),
        ("digits,", "digits,9", r"training\.csv:3: batch, batch_max and batch_sum do not fit together"),
        ("digits,", "digits,many", r"training\.csv:3: batch: 'many\d+' is not a number"),
    ],
)
def test_a_corrupt_row_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    save(SMALL, tmp_path)
    _spoil(tmp_path, "training.csv", 3, old, new)
    with pytest.raises(InputError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("value", ["nan", "inf", "-1.0"])
def test_what_cannot_be_measured_is_refused(tmp_path: Path, value: str) -> None:
    save(replace(SMALL, apps=(replace(SMALL.apps[0], tail_s=float(value)),)), tmp_path)
    with pytest.raises(InputError, match=rf"apps\.csv:2: tail_s: '{value}' cannot be measured"):
        load(tmp_path)


def test_columns_are_checked(tmp_path: Path) -> None:
    save(SMALL, tmp_path)
    _spoil(tmp_path, "apps.csv", 1, "tail_s", "tail_ss")
    with pytest.raises(InputError, match=r"apps\.csv:1: column 'tail_ss' is unknown; did you mean 'tail_s'"):
        load(tmp_path)
    _spoil(tmp_path, "apps.csv", 1, "tail_ss,", "")
    with pytest.raises(InputError, match=r"apps\.csv:1: column 'tail_s' is missing"):
        load(tmp_path)


def test_files_that_are_absent_or_binary_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training\.csv: there is no such file"):
        load(tmp_path)
    save(SMALL, tmp_path)
    (tmp_path / "apps.csv").write_bytes(b"point\n\xff\xfe")
    with pytest.raises(InputError, match=r"apps\.csv:2: not text"):
        load(tmp_path)


def test_an_empty_profile_is_a_profile(tmp_path: Path) -> None:
    save(Profile(), tmp_path)
    assert load(tmp_path) == Profile()
    assert read(TrainingRow, written(TrainingRow, []), Path("t.csv")) == ()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("family", "pickle", "unknown family or settings"),
        ("settings", {"trees": 10}, "unknown family or settings"),
        ("columns", ["secret"], "unknown columns"),
        ("seed", "one", "not a file of choices"),
    ],
)
def test_only_what_a_search_could_choose_is_read(
    fitted: Profile, tmp_path: Path, key: str, value: object, message: str
) -> None:
    save(fitted, tmp_path)
    kept = json.loads((tmp_path / "choices.json").read_text())
    kept["choices"][0]["choice"]["recipe"][key] = value
    (tmp_path / "choices.json").write_text(json.dumps(kept))
    with pytest.raises(InputError, match=rf"choices\.json: {message}"):
        load(tmp_path)


def test_settings_out_of_range_are_refused(fitted: Profile, tmp_path: Path) -> None:
    save(fitted, tmp_path)
    kept = json.loads((tmp_path / "choices.json").read_text())
    settings = kept["choices"][0]["choice"]["recipe"]["settings"]
    settings[next(iter(settings))] = 1e9
    (tmp_path / "choices.json").write_text(json.dumps(kept))
    with pytest.raises(InputError, match="settings out of range"):
        load(tmp_path)


def test_a_file_cut_short_is_named(fitted: Profile, tmp_path: Path) -> None:
    save(fitted, tmp_path)
    path = tmp_path / "choices.json"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"choices\.json: not a file of choices"):
        load(tmp_path)


def test_sweeps_are_put_together_and_their_points_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        save(replace(SMALL, choices={}), tmp_path / name)
    here("profile", "join", "one", "two", "--out", "both")
    both = load(tmp_path / "both")
    assert len(both.training) == 2 * len(SMALL.training) and len(both.apps) == 2 * len(SMALL.apps)
    half = len(SMALL.training)
    first, second = ({row.point for row in part} for part in (both.training[:half], both.training[half:]))
    assert not first & second and len(first) == len(second)
    moved = {row.point for row in both.apps[len(SMALL.apps) :]}
    assert moved <= second | {max(second) - max(first) + row.point for row in SMALL.apps}
    again = here("profile", "join", "one", "two", "--out", "both", check=False)
    assert again.returncode == 2 and "it is there already" in again.stderr
