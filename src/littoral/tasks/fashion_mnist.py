"""Fashion-MNIST (Xiao et al. 2017), 28x28 grey, ten classes of clothing, from its four IDX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from littoral.learning.data import count_idx, read_idx
from littoral.learning.image_task import ImageTask, Labelled, Samples, in_folder, standardise
from littoral.learning.task import Recipe

_PREFIXES = ("train", "t10k")
_MEAN, _DEVIATION = 0.2860, 0.3530  # of the training pixels


class FashionMnist(ImageTask):
    """``folder`` holds ``train-images-idx3-ubyte`` and its three companions, gzipped or not.

    ``samples`` trains on so many of the first images only.
    """

    def __init__(
        self,
        *,
        folder: str | Path,
        samples: int | None = None,
        model: str = "lenet",
        width: float = 1.0,
        lr: float = 0.05,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        batch: int = 32,
    ) -> None:
        recipe = Recipe(lr=lr, momentum=momentum, weight_decay=weight_decay, batch=batch, warmup=500)
        super().__init__("fashion-mnist", Samples(shape=(1, 28, 28), classes=10), recipe, model=model, width=width)
        if samples is not None and (not isinstance(samples, int) or samples < 1):
            raise ValueError(f"samples is {samples}; give a positive whole number")
        self._samples = samples
        self._folder = in_folder(folder, self.name)

    def counts(self) -> tuple[int, int]:
        train, test = (count_idx(self._folder / f"{prefix}-images-idx3-ubyte") for prefix in _PREFIXES)
        return min(train, self._samples or train), test

    def load(self) -> tuple[Labelled, Labelled]:
        (x, y), test = (self._read(prefix) for prefix in _PREFIXES)
        return (x[: self._samples], y[: self._samples]), test

    def _read(self, prefix: str) -> Labelled:
        images, labels = read_idx(
            self._folder / f"{prefix}-images-idx3-ubyte", self._folder / f"{prefix}-labels-idx1-ubyte"
        )
        return standardise(images[:, None], _MEAN, _DEVIATION), labels.astype(np.int64)


TASK = FashionMnist
