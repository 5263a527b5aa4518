"""Another task's model on frozen samples: the same data for everybody, beginning with the weights in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from littoral.errors import InputError
from littoral.learning.task import load_task
from littoral.tasks.digits import Digits
from littoral.tasks.stored import SAMPLES, freeze, frozen_sizes

STORED, DIGITS = "littoral.tasks.stored", "littoral.tasks.digits"
X = np.random.default_rng(0).random((30, 1, 8, 8), dtype=np.float32)
Y = np.arange(30, dtype=np.int64) % 10


def frozen(folder: Path, *, start: bytes | None = None, x: Any = X) -> Path:
    parts = {"train_x": x[:20], "train_y": Y[:20], "test_x": x[20:], "test_y": Y[20:]}
    freeze(folder / "data", parts, (0.5, 0.25), start)
    return folder / "data"


def stored(folder: Path, **options: Any) -> Any:
    return load_task(STORED, {"base": DIGITS, "folder": str(folder), **options})


def test_it_is_the_base_task_on_other_samples(tmp_path: Path) -> None:
    task, base = stored(frozen(tmp_path), options={"width": 0.5}), Digits(width=0.5)
    data, footprint, other = task.data(), task.footprint(), base.footprint()
    assert torch.equal(data.train_x, torch.from_numpy(X[:20])) and torch.equal(data.test_y, torch.from_numpy(Y[20:]))
    assert (footprint.samples, footprint.test_samples) == (20, 10) == frozen_sizes(tmp_path / "data")
    assert (footprint.parameters, footprint.flops_per_sample) == (other.parameters, other.flops_per_sample)
    assert footprint.sample_bytes == 4 * 64 + 1 and task.recipe == base.recipe


def test_pixels_are_scaled_when_read(tmp_path: Path) -> None:
    task = stored(frozen(tmp_path, x=np.full((30, 1, 8, 8), 255, np.uint8)))
    assert torch.allclose(task.data().train_x, torch.tensor(2.0)) and task.footprint().sample_bytes == 65


def test_training_begins_with_the_weights_in_the_folder(tmp_path: Path) -> None:
    torch.manual_seed(1)
    weights = dict(Digits().model().state_dict())
    warm = stored(frozen(tmp_path / "warm", start=save(weights))).model().state_dict()
    assert all(torch.equal(warm[name], weights[name]) for name in weights)
    cold = stored(frozen(tmp_path / "cold")).model().state_dict()
    assert not all(torch.equal(cold[name], weights[name]) for name in weights)


def test_a_folder_is_frozen_once(tmp_path: Path) -> None:
    first = frozen(tmp_path)
    before = (first / SAMPLES).read_bytes()
    frozen(tmp_path, x=1 - X)
    assert (first / SAMPLES).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_it_can_be_planned_before_there_is_a_folder(tmp_path: Path) -> None:
    footprint = stored(tmp_path / "later", expected=[400, 100]).footprint()
    assert (footprint.samples, footprint.test_samples) == (400, 100)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file; name a folder of frozen samples"):
        stored(tmp_path / "nowhere").footprint()
    damaged = frozen(tmp_path)
    (damaged / SAMPLES).write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not a file of samples"):
        stored(damaged).data()
    with pytest.raises(InputError, match="is itself"):
        load_task(STORED, {"base": STORED, "folder": "x"})
    with pytest.raises(InputError, match="weights of another model"):
        stored(frozen(tmp_path / "other", start=save(dict(Digits(width=2).model().state_dict())))).model()
