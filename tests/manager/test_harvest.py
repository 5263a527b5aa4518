"""What a run has learned is found in its folder, whoever held the model, in virtual time and with real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from freshness import CONTINUUM, KIND, Stream

from littoral.errors import InputError
from littoral.job import load_job
from littoral.manager.judging import score
from littoral.manager.weights import harvest, load_model
from littoral.run import Options, run_job
from littoral.tasks.digits import Digits
from littoral.tasks.stored import freeze

TASK = Digits()


def train(
    folder: Path, strategy: Any, start: bytes | None = None, *, epochs: int = 3, target: Any = None, **options: Any
) -> float:
    """Train on a frozen set; the accuracy that the run itself measured last."""
    x, y = Stream().take(500)
    labels = np.array(y)
    parts = {"train_x": x[:400], "train_y": labels[:400], "test_x": x[400:], "test_y": labels[400:]}
    freeze(folder / "data", parts, (0.0, 1.0), start)
    task = {"name": "littoral.tasks.stored", "base": "littoral.tasks.digits", "folder": "data"}
    job = {
        "continuum": "continuum.yaml",
        "task": task,
        "target": {"epochs": epochs, **(target or {})},
        "strategy": strategy,
        "planner": "proportional",
    }
    (folder / "continuum.yaml").write_text(yaml.safe_dump(CONTINUUM))
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    run_job(load_job(folder / "job.yaml"), folder / "run", Options(reference=False, **options))
    return float(json.loads((folder / "run" / "result.json").read_text())["accuracy"])


def accuracy(weights: bytes) -> float:
    x, y = Stream().take(500)
    return score(TASK, load_model(TASK, weights, "harvest"), KIND, x[400:], np.array(y[400:])).accuracy


@pytest.mark.parametrize(
    "strategy",
    [
        "allreduce",
        {"name": "parameter_server", "mode": "bsp", "servers": 2},
        {"name": "dpsgd", "topology": "complete"},
        {"name": "diloco", "period": 3},
    ],
    ids=lambda strategy: strategy if isinstance(strategy, str) else strategy["name"],
)
def test_the_weights_are_those_the_run_measured(tmp_path: Path, strategy: Any) -> None:
    measured = train(tmp_path, strategy)
    assert accuracy(harvest(TASK, tmp_path / "run")) == pytest.approx(measured)


@pytest.mark.parametrize("target", [{"accuracy": 0.5}, {"plateau": 0.5}])
def test_a_run_that_ends_early_leaves_what_it_had_reached(tmp_path: Path, target: dict[str, float]) -> None:
    measured = train(tmp_path, "allreduce", epochs=50, target=target)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["reason"] in ("target", "plateau")
    assert accuracy(harvest(TASK, tmp_path / "run")) == pytest.approx(measured)


def test_real_processes_go_on_from_the_weights_given(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    train(first, "allreduce", epochs=10)
    start = harvest(TASK, first / "run")
    measured = train(second, "allreduce", start, epochs=1, world="processes")
    weights = harvest(TASK, second / "run")
    assert accuracy(weights) == pytest.approx(measured)
    assert measured > accuracy(start) - 0.1 > 0.6  # one epoch from scratch is far from that


def test_a_run_that_left_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such checkpoint"):
        harvest(TASK, tmp_path)
