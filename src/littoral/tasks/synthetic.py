"""Gaussian clusters of any number, size and shape, for studies of scale: known before they are generated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from littoral.errors import InputError
from littoral.learning.image_task import ImageTask, Labelled, Samples
from littoral.learning.task import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Synthetic(ImageTask):
    """Class centres lie about ``separation`` noise deviations apart; at 6, under 2 % of ten classes overlap.

    ``shape`` is (channels, height, width); ``features`` replaces it with one dimension, for the model
    ``mlp``.
    """

    def __init__(
        self,
        *,
        samples: int = 2000,
        test_samples: int = 500,
        classes: int = 10,
        shape: Sequence[int] = (1, 8, 8),
        features: int | None = None,
        separation: float = 6.0,
        model: str = "mlp",
        width: float = 1.0,
        lr: float = 0.05,
        batch: int = 32,
        seed: int = 0,
    ) -> None:
        sides = tuple(shape) if features is None else (features,)
        if min(samples, test_samples, classes, *sides) < 1:
            raise InputError(
                f"a synthetic task of {samples} and {test_samples} samples, {classes} classes, shape {sides}",
                remedy="all of them must be positive",
            )
        kind = Samples(shape=sides, classes=classes, bytes_per_value=4)
        super().__init__("synthetic", kind, Recipe(lr=lr, batch=batch), model=model, width=width)
        self._counts, self._separation, self._seed = (samples, test_samples), separation, seed

    def counts(self) -> tuple[int, int]:
        return self._counts

    def load(self) -> tuple[Labelled, Labelled]:
        import numpy as np

        rng = np.random.default_rng(self._seed)
        size = (self.samples.classes, math.prod(self.samples.shape))
        directions = rng.standard_normal(size, dtype=np.float32)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        centres = directions * np.float32(self._separation / math.sqrt(2))  # so far apart are orthogonal ones
        train, test = (self._draw(count, centres, rng) for count in self._counts)
        return train, test

    def _draw(self, count: int, centres: NDArray[np.float32], rng: np.random.Generator) -> Labelled:
        labels = rng.integers(self.samples.classes, size=count)
        noise = rng.standard_normal((count, centres.shape[1]), dtype="float32")
        return (centres[labels] + noise).reshape(count, *self.samples.shape), labels


TASK = Synthetic
