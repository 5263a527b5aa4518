"""The built-in tasks: what they announce is what they load, and the default recipes learn."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from littoral.errors import InputError
from littoral.learning.optim import make_optimizer
from littoral.learning.replica import Replica
from littoral.learning.task import Task, load_task

torch.set_num_threads(1)


def accuracy_after(task: Task, epochs: int) -> float:
    replica, data = Replica(task, 0), task.data()
    optimizer = make_optimizer(task.recipe, len(replica), replica.trained)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(data.train_x), generator=generator), task.recipe.batch):
            gradient, _ = replica.gradient(data.train_x[rows], data.train_y[rows])
            optimizer.step(replica.vector, gradient)
    return replica.evaluate(data, task).accuracy


def assert_announced(task: Task) -> None:
    footprint, data, replica = task.footprint(), task.data(), Replica(task, 0)
    assert (footprint.samples, footprint.test_samples) == (len(data.train_x), len(data.test_x))
    assert (footprint.parameters, footprint.vector_bytes) == (replica.trained, replica.vector.nbytes)
    assert data.train_x.dtype == torch.float32 and data.train_y.dtype == torch.int64
    assert task.model()(data.test_x[:2]).shape == (2, footprint.classes)


def write_idx(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">{1 + array.ndim}I", 2048 + array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 12), ("t10k", 5)):
        images = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte.gz", np.arange(count, dtype=np.uint8) % 10)
    return tmp_path


@pytest.fixture
def caltech(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, count in (("train", 9), ("test", 4)):
        images = rng.integers(256, size=(count, 32, 32, 3), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(count, dtype=np.uint8))
    return tmp_path


def test_digits_announces_what_it_loads_and_learns_in_ten_epochs() -> None:
    task = load_task("littoral.tasks.digits", {})
    assert_announced(task)
    assert (task.data().train_x.min().item(), task.data().train_x.max().item()) == (0, 1)
    assert task.recipe.batch == 32
    assert accuracy_after(task, 10) >= 0.95


def test_digits_is_split_by_seed() -> None:
    one, same, other = (load_task("littoral.tasks.digits", {"seed": seed}).data() for seed in (1, 1, 2))
    assert torch.equal(one.test_x, same.test_x) and not torch.equal(one.test_x, other.test_x)


def test_fashion_mnist_from_idx_files(fashion: Path) -> None:
    task = load_task("littoral.tasks.fashion_mnist", {"folder": str(fashion)})
    assert_announced(task)
    assert task.footprint().sample_bytes == 28 * 28 + 1
    assert task.data().test_y.tolist() == [0, 1, 2, 3, 4]


def test_caltech_from_archives_with_channels_first(caltech: Path) -> None:
    task = load_task("littoral.tasks.caltech101", {"folder": caltech})
    assert_announced(task)
    pixels = np.load(caltech / "train.npz")["images"]
    expected = (pixels[3, 5, 7, 2] / 255 - 0.51) / 0.30
    assert task.data().train_x[3, 2, 5, 7].item() == pytest.approx(expected, abs=1e-4)


def test_a_folder_without_files_or_with_strange_labels_is_refused(caltech: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train-images-idx3-ubyte"):
        load_task("littoral.tasks.fashion_mnist", {"folder": tmp_path}).footprint()
    with pytest.raises(InputError, match="give a path"):
        load_task("littoral.tasks.caltech101", {"folder": 3})
    np.savez(caltech / "test.npz", images=np.zeros((1, 32, 32, 3), np.uint8), labels=np.array([47], np.uint8))
    with pytest.raises(InputError, match=r"test labels .* 47"):
        load_task("littoral.tasks.caltech101", {"folder": caltech}).data()
    np.savez(caltech / "train.npz", images=np.zeros((1, 30, 32, 3), np.uint8), labels=np.zeros(1, np.uint8))
    with pytest.raises(InputError, match="train samples"):
        load_task("littoral.tasks.caltech101", {"folder": caltech}).data()


@pytest.mark.parametrize("options", [{}, {"features": 20, "classes": 4}, {"shape": [2, 8, 9], "model": "lenet"}])
def test_synthetic_announces_what_it_generates(options: dict[str, object]) -> None:
    sized = {"samples": 70, "test_samples": 30, **options}
    assert_announced(load_task("littoral.tasks.synthetic", sized))
    one, two = (load_task("littoral.tasks.synthetic", sized).data() for _ in range(2))
    assert torch.equal(one.train_x, two.train_x) and torch.equal(one.test_y, two.test_y)


def test_synthetic_is_as_hard_as_its_separation() -> None:
    easy, hard = (load_task("littoral.tasks.synthetic", {"separation": s}) for s in (6.0, 1.0))
    assert accuracy_after(easy, 3) > 0.9 > 0.5 > accuracy_after(hard, 3)


def test_a_huge_synthetic_task_costs_nothing_to_announce() -> None:
    footprint = load_task("littoral.tasks.synthetic", {"samples": 10**12, "features": 10**6}).footprint()
    assert footprint.samples == 10**12 and footprint.sample_bytes == 4 * 10**6 + 1


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"classes": 0}, {"shape": (1, 0, 8)}, {"width": 0}])
def test_an_empty_synthetic_task_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="positive"):
        load_task("littoral.tasks.synthetic", wrong)
