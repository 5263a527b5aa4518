"""Loading a task by name answers every mistake with a remedy, and planning needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from littoral.errors import InputError, MissingExtra
from littoral.learning.task import Recipe, load_task, require_torch

TINY = """
from littoral.learning.task import Recipe

class Tiny:
    name, recipe = "tiny", Recipe(lr=0.1)
    def __init__(self, size=3): self.size = size
    def footprint(self): ...
    def model(self): ...
    def data(self): ...
    def loss(self, output, target): ...
    def metric(self, output, target): ...

class Half:
    name = "half"

class Picky(Tiny):
    def __init__(self, size): raise ValueError("size is odd")

class Nameless(Tiny):
    def __getattribute__(self, key):
        if key == "name": raise AttributeError(key)
        return super().__getattribute__(key)

number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_tasks.py").write_text(TINY)
    (tmp_path / "mine_broken.py").write_text("import no_such_package_anywhere")
    (tmp_path / "mine_torch.py").write_text("import torch")
    (tmp_path / "mine_untyped.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_built_in_task_by_module() -> None:
    assert load_task("littoral.tasks.digits", {"width": 0.5}).footprint().parameters == 64 * 100 + 100 + 1010


@pytest.mark.usefixtures("mine")
def test_a_task_of_ones_own() -> None:
    task = load_task("mine_tasks:Tiny", {"size": 5})
    assert (task.name, getattr(task, "size", None)) == ("tiny", 5)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("littoral.tasks.digit", {}, "did you mean 'littoral.tasks.digits'"),
        ("littoral.tasks.digits", {"widht": 2}, "did you mean 'width'"),
        ("littoral.tasks.digits", {"width": "two"}, "check their types"),
        ("littoral.tasks.digits", {"model": "resnet9"}, "did you mean 'resnet"),
        ("littoral.tasks.digits", {"lr": -1}, "positive"),
        ("littoral.tasks.fashion_mnist", {}, "needs the option 'folder'"),
        ("no_such_thing_at_all:Task", {}, "PYTHONPATH"),
        ("mine_tasks:Tin", {}, "did you mean 'Tiny'"),
        ("mine_tasks", {}, "no attribute 'TASK'"),
        ("mine_tasks:number", {}, "is no task: it lacks footprint"),
        ("mine_tasks:Half", {}, "is no task: it lacks footprint"),
        ("mine_tasks:Nameless", {}, "lacks name"),
        ("os:system", {"command": "exit 1"}, "is no task"),
        ("subprocess:Popen", {"args": "exit"}, "is no task"),
        ("builtins:dict", {}, "is no task"),
        (".", {}, "failed"),
        ("mine_tasks:Picky", {"size": 3}, "size is odd"),
        ("mine_broken:Task", {}, "install no_such_package_anywhere"),
        ("mine_untyped:Task", {}, "importing mine_untyped failed"),
        ("", {}, "importing  failed"),
    ],
)
def test_every_mistake_has_a_remedy(spec: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_task(spec, options)


@pytest.mark.usefixtures("mine")
def test_a_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"training x needs torch.*littoral\[train\]"):
        require_torch("training x")
    with pytest.raises(MissingExtra, match=r"task mine_torch:Task needs torch.*littoral\[train\]"):
        load_task("mine_torch:Task", {})
    with pytest.raises(MissingExtra, match="training digits needs torch"):
        load_task("littoral.tasks.digits", {}).model()


def test_a_missing_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"scikit-learn.*littoral\[train\]"):
        load_task("littoral.tasks.digits", {}).data()


def test_digits_are_those_of_scikit_learn_read_without_it() -> None:
    from sklearn.datasets import load_digits

    (x, y), (test_x, test_y) = load_task("littoral.tasks.digits", {}).load()  # type: ignore[attr-defined]
    theirs = load_digits()
    order = np.random.default_rng(0).permutation(1797)
    assert np.array_equal(np.concatenate([x, test_x])[:, 0], (theirs.images[order] / 16).astype(np.float32))
    assert np.array_equal(np.concatenate([y, test_y]), theirs.target[order])
    alone = "import sys; from littoral.tasks.digits import TASK; TASK().load(); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", alone], check=True)


def test_planning_imports_neither_torch_nor_sklearn() -> None:
    code = """
import sys
from littoral.learning.task import load_task
for name in ("digits", "synthetic"):
    load_task(f"littoral.tasks.{name}", {}).footprint()
import littoral.learning.checkpoint, littoral.learning.data, littoral.learning.partition
import littoral.tasks.fashion_mnist, littoral.tasks.caltech101
assert not {"torch", "sklearn"} & set(sys.modules), "imported too much"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"momentum": 1.0},
        {"weight_decay": -0.1},
        {"batch": 0},
        {"batch": 1.5},
        {"nesterov": True},
        {"optimizer": "adam"},
    ],
)
def test_a_recipe_is_validated(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Recipe(**{"lr": 0.1, **wrong})  # type: ignore[arg-type]
