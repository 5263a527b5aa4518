"""What the drift study serves: streams of samples in order, where they drift, and the model that answers them."""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from littoral.errors import InputError
from littoral.incremental.images import Images
from littoral.incremental.stream import ImageStream, Phase


@dataclass(frozen=True)
class Course:
    """A stream to serve: samples in order, how it is trained, and where it drifts, if that is known."""

    x: torch.Tensor
    y: torch.Tensor
    first: int  # samples the first version learns from
    window: int  # samples an update learns from
    often: int  # samples between the updates of "always"; "schedule" lets four times as many pass
    drifts: tuple[tuple[int, int], ...] | None  # where, and over how many samples
    hidden: int = 64
    epochs: int = 5


def half(images: Images, part: int) -> Images:
    """Every other image: those that settings are chosen on (0) are none of those that are reported on (1)."""
    return Images(images.pixels[part::2], images.labels[part::2])


def image_course(images: Images, phases: Sequence[Phase], seed: int) -> Course:
    """The first phase ends elsewhere with every seed, so that "always" is neither always early nor always late."""
    longer = replace(phases[0], samples=phases[0].samples + 137 * (seed + 1) % 500)
    stream = ImageStream(images, [longer, *phases[1:]], seed=seed)
    x, y = (torch.from_numpy(part) for part in stream.between(0, len(stream)))
    drifts = tuple((start, phase.gradual) for start, phase in zip(stream.drifts, phases[1:], strict=True))
    return Course(x.flatten(1), y, first=1000, window=500, often=500, drifts=drifts)


def other_seasons() -> tuple[Phase, ...]:
    """Drifts to choose settings on: not those of ``seasons``."""
    few = tuple(range(2, 10))
    bright = {"rotation": -60.0, "brightness": 0.3, "contrast": 0.5}
    return (
        Phase(name="calm", samples=2500, classes=few),
        Phase(name="turned", samples=2500, classes=few, rotation=-60, gradual=600),
        Phase(name="bright", samples=2500, classes=few, **bright),
        Phase(name="new classes", samples=2500, **bright),
        Phase(name="negative", samples=2500, contrast=-1, gradual=1200),
    )


def electricity(folder: Path) -> Course:
    """Half-hours: the first version learns from twelve weeks, an update from four; always is every week.

    Three columns are constant in these twelve weeks and vary later, so deviations get a floor.
    """
    path = folder / "elec2.csv.gz"
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = np.array([[float(cell) for cell in row] for row in list(csv.reader(file))[1:]])
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}", file=path, remedy="give --data") from error
    week, features = 7 * 48, rows[:, :-1]
    x = (features - features[: 12 * week].mean(axis=0)) / (features[: 12 * week].std(axis=0) + 0.05)
    samples = torch.tensor(x, dtype=torch.float32), torch.tensor(rows[:, -1], dtype=torch.int64)
    return Course(*samples, first=12 * week, window=4 * week, often=week, drifts=None, hidden=32)


class Model:
    """One hidden layer, trained by SGD with momentum; counts what training took."""

    def __init__(self, course: Course, seed: int) -> None:
        self._rng = torch.Generator().manual_seed(seed)
        inputs, classes = course.x.shape[1], int(course.y.max()) + 1
        torch.manual_seed(seed)
        self._net = nn.Sequential(nn.Linear(inputs, course.hidden), nn.ReLU(), nn.Linear(course.hidden, classes))
        self.trained, self.seconds = 0, 0.0

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The likeliest classes."""
        with torch.no_grad():
            return torch.argmax(self._net(x), dim=1)

    def train(self, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
        """From where it is."""
        began = time.process_time()
        optimiser = torch.optim.SGD(self._net.parameters(), lr=0.05, momentum=0.9)
        for _ in range(epochs):
            order = torch.randperm(len(x), generator=self._rng)
            for start in range(0, len(x), 32):
                rows = order[start : start + 32]
                optimiser.zero_grad()
                torch.autograd.backward(nn.functional.cross_entropy(self._net(x[rows]), y[rows]))
                optimiser.step()
        self.trained += epochs * len(x)
        self.seconds += time.process_time() - began
