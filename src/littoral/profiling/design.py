"""Where to measure: points that fill the space of stresses and batches evenly, then those the models know least of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from littoral.errors import MissingExtra
from littoral.profiling.stressors import Stress

MOST_CPU, MOST_MEMORY, MOST_BANDWIDTH, MOST_GPU = 1.0, 0.5, 0.5, 0.9  # copies and apps want some of a processor, too
MOST_DISK = 0.9  # of the time
QUIET = 0.4  # of the points a device has no bandwidth stress, and where disks are stressed none on its disk
_DRAWN = 64  # at a time: a power of two
_AXES = 4  # of a device: processor, memory, bandwidth, batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What may be varied: the devices that can train, and the server's."""

    workers: tuple[str, ...]
    server: str
    batches: tuple[int, ...]  # the ladder of sizes
    cards: tuple[str, ...] = ()  # those workers with a graphics card of their own
    disks: tuple[str, ...] = ()  # those workers whose disk is stressed, too
    everybody: bool = False  # all workers train at every point


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting of everything."""

    number: int
    stress: dict[str, Stress]  # of every device, the server's included
    batches: dict[str, int]  # of those that train


def points(space: Space, seed: int = 0) -> Iterator[Point]:
    """Points without end; the first n fill the space evenly for every n, and every few axes of it (Sobol's sequence).

    Sequences of one step per axis (Kronecker's) need fewer lines, and go up and down in step where axes are many.
    """
    try:
        from scipy.stats.qmc import Sobol
    except ModuleNotFoundError as error:
        raise MissingExtra("scipy", "profile", "choosing points to measure") from error
    axes = _AXES * len(space.workers) + 2 + len(space.cards) + len(space.disks)
    sequence = Sobol(axes, scramble=True, seed=seed)
    numbers = itertools.count(1)
    while True:
        for unit, number in zip(sequence.random(_DRAWN), numbers, strict=False):
            yield _point(space, number, unit)


def _point(space: Space, number: int, unit: NDArray[np.float64]) -> Point:
    cards_at = _AXES * len(space.workers) + 2
    plain, cards, disks = np.split(unit, [cards_at, cards_at + len(space.cards)])
    busy = dict(zip(space.cards, cards.tolist(), strict=True))
    written = dict(zip(space.disks, disks.tolist(), strict=True))
    least = len(space.workers) if space.everybody else 1
    count = least + int(plain[-1] * (len(space.workers) + 1 - least))  # that train, beginning with another every time
    turn = [space.workers[(number + i) % len(space.workers)] for i in range(count)]
    stress, batches = {space.server: Stress(cpu=_round(plain[-2] * MOST_CPU))}, {}
    for index, device in enumerate(space.workers):
        cpu, memory, bandwidth, batch = plain[_AXES * index : _AXES * (index + 1)]
        stress[device] = Stress(
            cpu=_round(cpu * MOST_CPU), memory=_round(memory * MOST_MEMORY),
            bandwidth=_round(_often_none(bandwidth) * MOST_BANDWIDTH),
            gpu=_round(busy.get(device, 0.0) * MOST_GPU),
            disk=_round(_often_none(written.get(device, 0.0)) * MOST_DISK),
        )  # fmt: skip
        if device in turn:
            batches[device] = space.batches[int(batch * len(space.batches))]
    return Point(number=number, stress=stress, batches=batches)


def _often_none(unit: float) -> float:
    return max(0.0, unit - QUIET) / (1 - QUIET)


def _round(share: float) -> float:
    return round(float(share), 3)


def least_known(
    candidates: Sequence[Point], measured: Sequence[tuple[Point, dict[str, float]]], seed: int = 0
) -> Point:
    """The candidate about which a Gaussian process over all measured compute times is least sure, over its workers."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    doubts = np.zeros(len(candidates))
    for device in sorted({name for _, times in measured for name in times}):
        known = [(_features(point, device), math.log(times[device])) for point, times in measured if device in times]
        asked = [i for i, point in enumerate(candidates) if device in point.batches]
        if len(known) < 4 or not asked:
            continue
        kernel = Matern(length_scale=0.5, nu=2.5) + WhiteKernel(1e-3)
        model = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=None, random_state=seed)
        model.fit(np.array([x for x, _ in known]), np.array([y for _, y in known]))
        doubts[asked] += model.predict(np.array([_features(candidates[i], device) for i in asked]), return_std=True)[1]
    return candidates[int(np.argmax(doubts))]


def _features(point: Point, device: str) -> list[float]:
    stress = point.stress[device]
    return [
        stress.cpu,
        stress.memory,
        stress.bandwidth,
        stress.gpu,
        stress.disk,
        math.log2(point.batches[device]) / 8,
        len(point.batches) / 4,
    ]
