"""Another task's model on samples of one's own, frozen in a folder, beginning with weights found there.

This is what an update of a deployed model trains: the samples that its store held when the update began. The folder is
written once, whole, before the run: a run that is resumed sees the same data.

    samples.safetensors   train_x, train_y, test_x, test_y; inputs as they arrived
    start.safetensors     the weights to begin with, by their names in the model; without it, training begins afresh
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from littoral.errors import InputError, brief
from littoral.learning.image_task import ImageTask, in_folder, standardise
from littoral.learning.task import Dataset, Footprint, Task, load_task, require_torch

if TYPE_CHECKING:
    from torch import Tensor, nn

_VALUE_BYTES = {"U8": 1, "F16": 2, "F32": 4}
SAMPLES, START = "samples.safetensors", "start.safetensors"


class Stored:
    """``base`` names the task whose model, loss and metric are used, ``options`` are that task's.

    ``expected`` is how many training and test samples to plan for where the folder is not there (any more).
    """

    def __init__(
        self,
        *,
        base: str,
        folder: str | Path,
        options: Mapping[str, Any] | None = None,
        expected: Sequence[int] | None = None,
    ) -> None:
        if base.partition(":")[0] == __name__:
            raise InputError(f"the base of {base} is itself", remedy="name the task that gives the model")
        self._base: Task = load_task(base, dict(options or {}))
        self.name, self.recipe = f"stored-{self._base.name}", self._base.recipe
        self._folder = in_folder(folder, self.name)
        self._expected = None if expected is None else (int(expected[0]), int(expected[1]))

    def footprint(self) -> Footprint:
        if self._expected is not None and not self._folder.exists():
            return self._weigh(*self._expected)
        (train, kind), (test, _) = (_shape(self._folder / SAMPLES, name) for name in ("train_x", "test_x"))
        weight = int(np.prod(train[1:])) * _VALUE_BYTES.get(kind, 4) + 1
        return dataclasses.replace(self._weigh(train[0], test[0]), sample_bytes=weight)

    def model(self) -> nn.Module:
        model = self._base.model()
        start = self._folder / START
        if start.exists():
            load_weights(model, start.read_bytes(), start)
        return model

    def data(self) -> Dataset:
        return self._dataset

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return self._base.loss(output, target)

    def metric(self, output: Tensor, target: Tensor) -> float:
        return self._base.metric(output, target)

    def _weigh(self, samples: int, test_samples: int) -> Footprint:
        if isinstance(self._base, ImageTask):
            return self._base.weigh(samples, test_samples)
        return dataclasses.replace(self._base.footprint(), samples=samples, test_samples=test_samples)

    @cached_property
    def _dataset(self) -> Dataset:
        require_torch(f"training {self.name}")
        import torch

        path = self._folder / SAMPLES
        with _opened(path) as file:
            header = file.metadata() or {}
            parts = {name: file.get_tensor(name) for name in ("train_x", "train_y", "test_x", "test_y")}
        mean, deviation = (float(header.get(name, default)) for name, default in (("mean", 0), ("deviation", 1)))
        for name in ("train_x", "test_x"):
            parts[name] = as_model_input(parts[name], mean, deviation)
        return Dataset(**{name: torch.from_numpy(array) for name, array in parts.items()})


def as_model_input(values: NDArray[Any], mean: float, deviation: float) -> NDArray[np.float32]:
    """Floats as they are; bytes as pixels, of this mean and deviation on the scale 0..1."""
    return standardise(values, mean, deviation) if values.dtype == np.uint8 else values.astype(np.float32)


def load_weights(model: nn.Module, content: bytes, source: str | Path) -> None:
    """Put weights into a model; refuses what does not fit it, or is not finite."""
    import torch
    from safetensors.torch import load

    try:
        tensors = load(content)
    except SafetensorError as error:
        raise InputError(f"not a safetensors file ({error})", file=source, remedy="give the model's weights") from error
    bad = [name for name, t in tensors.items() if t.is_floating_point() and not torch.isfinite(t).all()]
    if bad:
        raise InputError(f"{brief(bad[0])} has values that are not finite", file=source, remedy="train it again")
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = str(error).partition("\n")[2].strip() or str(error)
        raise InputError(
            f"weights of another model: {brief(reason)}", file=source, remedy="check the task and its options"
        ) from error


def freeze(folder: Path, parts: Mapping[str, NDArray[Any]], scaling: tuple[float, float], start: bytes | None) -> None:
    """Write the folder whole, or not at all; one that is there already stays as it is.

    ``parts`` are train_x, train_y, test_x and test_y; ``scaling`` is the mean and deviation of pixels.
    """
    if folder.exists():
        return
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    header = {"mean": repr(scaling[0]), "deviation": repr(scaling[1])}
    arrays = {name: np.ascontiguousarray(array) for name, array in parts.items()}
    write_down(draft / SAMPLES, serialise(arrays, header))
    if start is not None:
        write_down(draft / START, start)
    sync_folder(draft)
    os.replace(draft, folder)
    sync_folder(folder.parent)


def frozen_sizes(folder: Path) -> tuple[int, int]:
    """How many training and test samples a frozen folder holds."""
    train, test = (_shape(folder / SAMPLES, name)[0][0] for name in ("train_x", "test_x"))
    return train, test


def write_down(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows what the folder holds."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except FileNotFoundError as error:
        raise InputError("no such file", file=path, remedy="name a folder of frozen samples") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"not a file of samples ({error})", file=path, remedy="freeze the samples again") from error


def _shape(path: Path, name: str) -> tuple[list[int], str]:
    """Of one part, from the header alone, with its type."""
    with _opened(path) as file:
        part = file.get_slice(name)
        return part.get_shape(), part.get_dtype()


TASK = Stored
