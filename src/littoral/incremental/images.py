"""Labelled images to draw a stream from, pixels from 0 to 1, and what can happen to one: turned, lit otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError

Image = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Images:
    """``pixels`` (count, channels, height, width) from 0 to 1, and the class of each image."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.labels.shape != self.pixels.shape[:1] or not len(self.labels):
            remedy = "give (count, channels, height, width) and as many labels"
            raise InputError(f"images of shape {self.pixels.shape}, labels of {self.labels.shape}", remedy=remedy)

    @property
    def classes(self) -> tuple[int, ...]:
        """Those there are images of."""
        return tuple(np.unique(self.labels).tolist())


def digits() -> Images:
    """The 1797 handwritten digits of scikit-learn, 8x8: nothing to download."""
    from littoral.tasks.digits import Digits

    (x, y), (more_x, more_y) = Digits().load()
    return Images(np.concatenate([x, more_x]), np.concatenate([y, more_y]))


def fashion_mnist(folder: str | Path) -> Images:
    """The 60,000 training images of Fashion-MNIST, 28x28, from its IDX files, gzipped or not."""
    from littoral.learning.data import read_idx

    images, labels = read_idx(Path(folder) / "train-images-idx3-ubyte", Path(folder) / "train-labels-idx1-ubyte")
    return Images((images[:, None] / np.float32(255)).astype(np.float32), labels.astype(np.int64))


def turned(image: Image, degrees: float) -> Image:
    """Turned anticlockwise about its middle; what comes in from outside is black.

    >>> turned(np.array([[[0, 1], [0, 0]]], dtype=np.float32), 90).round(3).tolist()
    [[[1.0, 0.0], [0.0, 0.0]]]
    """
    _, height, width = image.shape
    y, x = np.mgrid[:height, :width].astype(np.float64)
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return _sampled(image, sine * x + cosine * y + (height - 1) / 2, cosine * x - sine * y + (width - 1) / 2)


def _sampled(image: Image, y: NDArray[np.float64], x: NDArray[np.float64]) -> Image:
    """The image between its pixels, each the mean of four weighted by nearness."""
    framed = np.pad(image, ((0, 0), (1, 2), (1, 2)))
    y = np.clip(y + 1, 0, framed.shape[1] - 2)
    x = np.clip(x + 1, 0, framed.shape[2] - 2)
    top, left = y.astype(int), x.astype(int)
    down, right = y - top, x - left
    mixed = (
        framed[:, top, left] * (1 - down) * (1 - right)
        + framed[:, top, left + 1] * (1 - down) * right
        + framed[:, top + 1, left] * down * (1 - right)
        + framed[:, top + 1, left + 1] * down * right
    )
    return np.asarray(mixed, dtype=np.float32)


def lit(image: Image, brightness: float, contrast: float) -> Image:
    """Contrast multiplies the distance from middle grey (-1 is a negative), then brightness is added."""
    shades = (image - np.float32(0.5)) * np.float32(contrast) + np.float32(0.5 + brightness)
    return np.asarray(np.clip(shades, 0, 1))
