"""The training set of an update, taken from the store at the moment the update began and frozen in a folder."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from littoral.errors import InputError
from littoral.manager.documents import STORED
from littoral.manager.model_records import Model
from littoral.manager.samples import Labelled, Samples
from littoral.tasks.stored import freeze, frozen_sizes


def freeze_samples(
    samples: Samples, model: Model, upto: int, folder: Path, start: bytes | None, seed: int
) -> tuple[int, int]:
    """What arrived up to label number ``upto``, unless the folder is there already; the numbers of samples in it.

    ``start`` are the weights to begin with.
    """
    if not folder.exists():
        x, y = _training_set(samples, model, upto, seed)
        test_x, test_y = samples.labelled(model.store, held_out=True, upto=upto, most=model.gate.window)
        _check_enough(model, len(x), len(test_x))
        kind = samples.stores.get(model.store).kind
        parts = {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}
        freeze(folder, parts, (kind.mean, kind.deviation), start)
    return frozen_sizes(folder)


def _check_enough(model: Model, count: int, held_out: int) -> None:
    least = model.training.least_samples
    if count < least or not held_out:
        raise InputError(
            f"{count} labelled samples to train on and {held_out} held out; at least {least} and 1 are needed",
            remedy="wait for more samples, or lower the model's training.least_samples",
        )


def _training_set(samples: Samples, model: Model, upto: int, seed: int) -> Labelled:
    """The newest, and among them so many older ones that these are the share asked for, as far as there are any."""
    training = model.training
    x, y = samples.labelled(model.store, held_out=False, upto=upto, most=training.window)
    wanted = round(len(x) * training.rehearsal / (1 - training.rehearsal))
    if not wanted:
        return x, y
    old_x, old_y = samples.older(model.store, upto=upto, beyond=len(x), most=wanted, dice=random.Random(seed))
    return np.concatenate([old_x, x]), np.concatenate([old_y, y])


def job_for(model: Model, name: str, folder: Path, sizes: tuple[int, int]) -> dict[str, Any]:
    """The document of the job that trains on the frozen folder, which has or will have samples of these numbers."""
    task = {
        "name": STORED, "base": model.task, "options": model.options, "folder": str(folder), "expected": list(sizes)
    }  # fmt: skip
    return {**model.training.job, "name": name, "task": task}
