"""Handwritten digits, 8x8 grey, 1797 in all: bundled with scikit-learn, so it runs anywhere in seconds."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from littoral.errors import MissingExtra
from littoral.learning.image_task import ImageTask, Labelled, Samples
from littoral.learning.task import Recipe

_TRAIN, _TEST = 1437, 360


class Digits(ImageTask):
    """``seed`` chooses which fifth of the samples is kept for testing."""

    def __init__(
        self,
        *,
        model: str = "mlp",
        width: float = 1.0,
        lr: float = 0.2,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        batch: int = 32,
        seed: int = 0,
    ) -> None:
        recipe = Recipe(lr=lr, momentum=momentum, weight_decay=weight_decay, batch=batch)
        super().__init__("digits", Samples(shape=(1, 8, 8), classes=10), recipe, model=model, width=width)
        self._seed = seed

    def counts(self) -> tuple[int, int]:
        return _TRAIN, _TEST

    def load(self) -> tuple[Labelled, Labelled]:
        import numpy as np

        table = _table()
        x = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
        y = table[:, -1].astype(np.int64)
        order = np.random.default_rng(self._seed).permutation(len(x))
        train, test = order[:_TRAIN], order[_TRAIN:]
        return (x[train], y[train]), (x[test], y[test])


def _table() -> Any:
    """A row per sample, its class last: scikit-learn's file, read without the library, which is slow to import."""
    import numpy as np

    library = find_spec("sklearn")
    if library is None or not library.submodule_search_locations:
        raise MissingExtra("scikit-learn", "train", "the task digits")
    file = Path(library.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if not file.exists():  # another version of the library keeps it elsewhere
        from sklearn.datasets import load_digits

        digits = load_digits()
        return np.column_stack([digits.data, digits.target])
    with gzip.open(file, "rt") as lines:
        return np.loadtxt(lines, delimiter=",")


TASK = Digits
