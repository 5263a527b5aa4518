"""A stream of labelled images that drifts in phases: turned, lit otherwise, with classes not seen before.

A phase sets in at once or little by little. All of it follows from a seed: sample 5000 is the same whichever samples
were looked at before. No image comes again before all of its class have come, and never quite the same: each is turned
by a few degrees and gets noise.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError
from littoral.incremental.images import Image, Images, lit, turned


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """So many samples that look alike; ``gradual`` is over how many of the first of them it sets in."""

    name: str
    samples: int
    rotation: float = 0.0  # degrees, anticlockwise
    brightness: float = 0.0  # added to pixels, which are from 0 to 1
    contrast: float = 1.0  # about middle grey; -1 is a negative
    classes: tuple[int, ...] | None = None  # all, if not given
    gradual: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.gradual <= self.samples:
            found = f"phase {self.name!r} has {self.samples} samples, {self.gradual} of them gradual"
            raise InputError(found, remedy="give at least one sample, and no more gradual ones than samples")
        if not all(map(math.isfinite, self.look)):
            raise InputError(f"phase {self.name!r} looks like {self.look}", remedy="give finite numbers")
        if self.classes is not None and not self.classes:
            raise InputError(f"phase {self.name!r} has no classes", remedy="give some, or leave them out for all")

    @property
    def look(self) -> tuple[float, float, float]:
        """Rotation, brightness and contrast."""
        return self.rotation, self.brightness, self.contrast


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One image of the stream, (channels, height, width) from 0 to 1, with its class and the phase it is of."""

    step: int
    image: Image
    label: int
    phase: str


class ImageStream:
    """Samples 0 to ``len(stream) - 1``, by ``at`` or one after the other.

    >>> from littoral.incremental.images import digits
    >>> stream = ImageStream(digits(), [Phase(name="calm", samples=100), Phase(name="turned", samples=50, rotation=40)])
    >>> stream.drifts, stream.at(120).phase, stream.at(120).image.shape
    ((100,), 'turned', (1, 8, 8))
    """

    def __init__(
        self, images: Images, phases: Sequence[Phase], *, seed: int = 0, noise: float = 0.05, wobble: float = 5.0
    ) -> None:
        self.images, self.phases, self.seed = images, tuple(phases), seed
        self.noise, self.wobble = noise, wobble  # a pixel's deviation; degrees to either side
        self._check()
        self._ends = list(accumulate(phase.samples for phase in self.phases))
        rng = np.random.default_rng(seed)
        self.labels = self._draw_labels(rng)
        self._which = self._draw_images(rng)

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Sample]:
        return map(self.at, range(len(self)))

    @property
    def drifts(self) -> tuple[int, ...]:
        """The steps at which phases begin, but for the first."""
        return tuple(self._ends[:-1])

    def at(self, step: int) -> Sample:
        """The sample of a step."""
        if not 0 <= step < len(self):
            raise InputError(f"there is no step {step}", remedy=f"give one from 0 to {len(self) - 1}")
        number, share = self._place(step)
        before, after = self.phases[max(0, number - 1)].look, self.phases[number].look
        rotation, brightness, contrast = (a + share * (b - a) for a, b in zip(before, after, strict=True))
        rng = np.random.default_rng((self.seed, step))
        image = turned(self.images.pixels[self._which[step]], rotation + rng.uniform(-self.wobble, self.wobble))
        image = lit(image, brightness, contrast) + self.noise * rng.standard_normal(image.shape, dtype=np.float32)
        phase = self.phases[number].name
        return Sample(step=step, image=np.clip(image, 0, 1), label=int(self.labels[step]), phase=phase)

    def between(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Images and labels of steps from ``start`` until before ``stop``."""
        return np.stack([self.at(step).image for step in range(start, stop)]), self.labels[start:stop]

    def _place(self, step: int) -> tuple[int, float]:
        """The number of the step's phase and how far that has set in, from over 0 to 1."""
        number = bisect_right(self._ends, step)
        phase = self.phases[number]
        inside = step - (self._ends[number] - phase.samples) + 1
        return number, min(1.0, inside / phase.gradual) if phase.gradual else 1.0

    def _draw_labels(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A class for each step, all of its phase alike; while it sets in, some still of the phase before."""
        classes = [np.array(phase.classes or self.images.classes) for phase in self.phases]
        chances = rng.random((len(self), 2))
        labels = np.empty(len(self), dtype=np.int64)
        for step, (which, new) in enumerate(chances):
            number, share = self._place(step)
            known = classes[number if new < share else number - 1]
            labels[step] = known[int(which * len(known))]
        return labels

    def _draw_images(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """An image for each label: those of its class in an order of chance, then in another."""
        which = np.empty(len(self), dtype=np.int64)
        for label in np.unique(self.labels):
            steps, own = np.flatnonzero(self.labels == label), np.flatnonzero(self.images.labels == label)
            rounds = [rng.permutation(own) for _ in range(math.ceil(len(steps) / len(own)))]
            which[steps] = np.concatenate(rounds)[: len(steps)]
        return which

    def _check(self) -> None:
        if not self.phases:
            raise InputError("the stream has no phases", remedy="give at least one")
        if self.phases[0].gradual:
            raise InputError("the first phase is gradual", remedy="nothing is before it: let it set in at once")
        if self.seed < 0 or not 0 <= self.noise < math.inf or not 0 <= self.wobble < math.inf:
            found = f"seed {self.seed}, noise {self.noise}, wobble {self.wobble}"
            raise InputError(found, remedy="give numbers of at least 0")
        for phase in self.phases:
            if strange := set(phase.classes or ()) - set(self.images.classes):
                remedy = f"there are images of {self.images.classes}"
                raise InputError(f"phase {phase.name!r} has classes {sorted(strange)}", remedy=remedy)


def seasons(samples: int = 3000, *, classes: int = 10) -> tuple[Phase, ...]:
    """Five phases of as many samples: calm, turned (at once), dim (gradual), new classes (at once), back (gradual).

    The first three know seven in ten of the ``classes``.
    """
    few = tuple(range(math.ceil(7 * classes / 10)))
    return (
        Phase(name="calm", samples=samples, classes=few),
        Phase(name="turned", samples=samples, classes=few, rotation=40),
        Phase(name="dim", samples=samples, classes=few, rotation=40, brightness=-0.2, contrast=0.4,
              gradual=samples // 3),
        Phase(name="new classes", samples=samples, rotation=40, brightness=-0.2, contrast=0.4),
        Phase(name="back", samples=samples, gradual=samples // 3),
    )  # fmt: skip
