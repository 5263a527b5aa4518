"""What tasks of labelled samples share: a model by name, cross entropy, accuracy, a footprint."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from littoral.document import suggest
from littoral.errors import InputError
from littoral.learning.architectures import ARCHITECTURES
from littoral.learning.layers import Shape, Spec, count
from littoral.learning.task import Dataset, Footprint, Recipe, require_torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

Labelled: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.int64]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples of shape ``(channels, height, width)`` or ``(features,)``, each of one class."""

    shape: Shape
    classes: int
    bytes_per_value: int = 1


class ImageTask(ABC):
    """A classification task; a subclass says how many samples there are and loads them."""

    def __init__(self, name: str, samples: Samples, recipe: Recipe, *, model: str, width: float) -> None:
        self.name, self.samples, self.recipe = name, samples, recipe
        self.spec = _spec(samples, model, width)

    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Training and test samples; called when planning, so without torch."""

    @abstractmethod
    def load(self) -> tuple[Labelled, Labelled]:
        """The training and the test set, scaled for the model, one sample per row."""

    def footprint(self) -> Footprint:
        return self.weigh(*self.counts())

    def weigh(self, samples: int, test_samples: int) -> Footprint:
        """What so many samples would cost with this model."""
        size = count(self.spec, self.samples.shape)
        return Footprint(
            samples=samples,
            test_samples=test_samples,
            classes=self.samples.classes,
            parameters=size.parameters,
            buffers=size.buffers,
            flops_per_sample=3 * size.flops_forward,
            sample_bytes=self.samples.bytes_per_value * math.prod(self.samples.shape) + 1,
            activation_bytes=4 * size.activation_floats,
        )

    def model(self) -> nn.Module:
        require_torch(f"training {self.name}")
        from littoral.learning.models import build

        return build(self.spec, self.samples.shape)

    def data(self) -> Dataset:
        return self._dataset

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(output, target)

    def metric(self, output: Tensor, target: Tensor) -> float:
        return (output.argmax(dim=1) == target).float().mean().item()

    @cached_property
    def _dataset(self) -> Dataset:
        require_torch(f"training {self.name}")
        import torch

        parts: dict[str, Tensor] = {}
        for part, (x, y) in zip(("train", "test"), self.load(), strict=True):
            self._check(part, x, y)
            parts |= {f"{part}_x": torch.from_numpy(x), f"{part}_y": torch.from_numpy(y)}
        return Dataset(**parts)

    def _check(self, part: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        if x.shape[1:] != self.samples.shape:
            raise InputError(
                f"the {part} samples of {self.name} have shape {x.shape[1:]}",
                remedy=f"{self.samples.shape} is expected",
            )
        if y.size and not 0 <= y.min() <= y.max() < self.samples.classes:
            raise InputError(
                f"the {part} labels of {self.name} run from {y.min()} to {y.max()}",
                remedy=f"they must lie in 0..{self.samples.classes - 1}",
            )


def standardise(images: NDArray[np.uint8], mean: float, deviation: float) -> NDArray[np.float32]:
    """Pixels 0..255 to floats of about zero mean and unit deviation; both are given on the scale 0..1."""
    scaled = images.astype("float32")
    scaled *= 1 / (255 * deviation)
    scaled -= mean / deviation
    return scaled


def in_folder(folder: object, task: str) -> Path:
    """The folder of a task's files, checked for its type only: the files are checked when read."""
    if not isinstance(folder, str | Path):
        raise InputError(f"the folder of {task} is {folder!r}", remedy="give a path")
    return Path(folder)


def _spec(samples: Samples, model: str, width: float) -> Spec:
    if model not in ARCHITECTURES:
        raise InputError(f"unknown model {model!r}", remedy=suggest(str(model), list(ARCHITECTURES)))
    if not width > 0:
        raise InputError(f"width is {width}", remedy="give a positive number: it multiplies channels or units")
    return ARCHITECTURES[model](samples.shape, samples.classes, width)
