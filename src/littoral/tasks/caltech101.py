"""Caltech-101 (Fei-Fei et al. 2004), its 47 larger classes at 32x32 in colour, from two npz archives."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from littoral.learning.data import count_npz, read_npz
from littoral.learning.image_task import ImageTask, Labelled, Samples, in_folder, standardise
from littoral.learning.task import Recipe

_MEAN, _DEVIATION = 0.51, 0.30  # of the training pixels, over all three channels


class Caltech101(ImageTask):
    """``folder`` holds ``train.npz`` and ``test.npz``: ``images`` (n, 32, 32, 3), ``labels`` (n,), uint8."""

    def __init__(
        self,
        *,
        folder: str | Path,
        model: str = "resnet8",
        width: float = 1.0,
        lr: float = 0.05,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        batch: int = 32,
    ) -> None:
        recipe = Recipe(lr=lr, momentum=momentum, weight_decay=weight_decay, batch=batch)
        samples = Samples(shape=(3, 32, 32), classes=47)
        super().__init__("caltech101", samples, recipe, model=model, width=width)
        self._folder = in_folder(folder, self.name)

    def counts(self) -> tuple[int, int]:
        return count_npz(self._folder / "train.npz"), count_npz(self._folder / "test.npz")

    def load(self) -> tuple[Labelled, Labelled]:
        return self._read("train.npz"), self._read("test.npz")

    def _read(self, name: str) -> Labelled:
        images, labels = read_npz(self._folder / name)
        channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return standardise(channels_first, _MEAN, _DEVIATION), labels.astype(np.int64)


TASK = Caltech101
