"""Weighted dynamic batching (Hong and Chandra 2021): how large the global batch is, and who takes how much of it.

Everything here is arithmetic on what was measured. Whoever has the same numbers comes to the same decision, so no
worker needs to lead. Data stays where it is: a batch that follows the speed does not make a shard larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from littoral.planning.batches import equal_finish

_SPREAD = 0.05  # batches that differ by less than this tell nothing about the cost of one more sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The global batch over iterations: it grows by ``step`` up to a first share of the samples, then by ``factor``.

    Larger batches do what a smaller learning rate would, without smaller steps; beyond about a tenth of the data
    models generalise worse. A batch that is larger than that from the beginning stays as it is.

    >>> growth = Growth(start=64, samples=10_000, step=32, factor=2.0, period=10)
    >>> [growth.at(iteration) for iteration in (0, 9, 10, 20, 30, 40, 50, 10**9)]
    [64, 64, 96, 128, 256, 512, 1000, 1000]
    """

    start: int
    samples: int  # of an epoch; 0: the batch stays as it is
    step: int
    factor: float
    period: int  # iterations between two changes
    slow_until: float = 0.01  # share of the samples
    until: float = 0.10

    def at(self, iteration: int) -> int:
        """Samples that all workers together take in this iteration."""
        changes, most = iteration // self.period, max(self.start, int(self.until * self.samples))
        slow = max(0, math.ceil((self.slow_until * self.samples - self.start) / self.step))
        if changes <= slow:
            return min(self.start + changes * self.step, most)
        begin = min(self.start + slow * self.step, most)
        if (changes - slow) * math.log(self.factor) >= math.log(most / begin):
            return most
        return int(begin * self.factor ** (changes - slow))


@dataclass(frozen=True, slots=True)
class Power:
    """What an iteration costs a worker, ``fixed + per_sample * batch`` seconds, and the most it can take at once."""

    per_sample: float
    fixed: float
    most: int

    def seconds(self, batch: int) -> float:
        """Of an iteration."""
        return self.fixed + self.per_sample * batch


class Pace:
    """Iterations timed, the latest counting most; ``get`` fits a line to them.

    Iterations of one size say nothing about the fixed part, which then counts as part of the samples: the next change
    of batches brings the second size. The plan's word counts as one observation.

    >>> pace = Pace(batch=32, seconds=0.5)
    >>> for batch in (16, 64, 32) * 40: pace.update(batch, 0.1 + 0.01 * batch)
    >>> round(pace.get().per_sample, 4), round(pace.get().fixed, 4)
    (0.01, 0.1)
    """

    def __init__(self, *, batch: int, seconds: float, most: int = 10**9, memory: int = 10) -> None:
        self.most = most
        self._keep = 1.0 - 1.0 / memory
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.update(batch, seconds)

    def update(self, batch: int, seconds: float) -> None:
        """One more iteration; a clock too coarse to see it is not believed."""
        row = (1.0, float(batch), max(seconds, 1e-9), float(batch) ** 2, batch * max(seconds, 1e-9))
        sums = (self._n, self._x, self._y, self._xx, self._xy)
        self._n, self._x, self._y, self._xx, self._xy = (
            self._keep * s + new for s, new in zip(sums, row, strict=True)
        )  # fmt: skip

    def get(self) -> Power:
        """The line through them; through the origin where no other makes sense."""
        x, y = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - x * x
        if spread > (_SPREAD * x) ** 2:
            slope = (self._xy / self._n - x * y) / spread
            if slope > 0 and y >= slope * x:
                return Power(slope, y - slope * x, self.most)
        return Power(y / x, 0.0, self.most)


def shares(powers: Mapping[str, Power], total: int) -> dict[str, int]:
    """Everyone's batch: all iterations take the same time, and the batches sum to ``total`` (or to all that fits).

    That is the total divided by relative compute power, samples per second at the batch that each one gets.

    >>> shares({"a": Power(0.01, 0.0, 99), "b": Power(0.03, 0.0, 99)}, 64)
    {'a': 48, 'b': 16}
    """
    names, each = list(powers), list(powers.values())
    found = equal_finish([p.per_sample for p in each], [p.fixed for p in each], [p.most for p in each], total)
    return dict(zip(names, found, strict=True))


class Division:
    """Who takes how much of the global batch, kept by every worker for itself.

    What a worker costs is said for a numbered division; the newest word that is not for a later one counts. Where
    all words arrive in time everyone divides alike.
    """

    def __init__(self, growth: Growth, batches: Mapping[str, int], powers: Mapping[str, Power]) -> None:
        self.growth, self.batches = growth, dict(batches)
        self._said = {name: {0: power} for name, power in powers.items()}

    @property
    def total(self) -> int:
        """Samples of everyone in an iteration."""
        return sum(self.batches.values())

    def hear(self, name: str, number: int, power: Power) -> None:
        """A worker's word for a division."""
        self._said[name][number] = power

    def divide(self, iteration: int) -> None:
        """The batches from this iteration on."""
        number = iteration // self.growth.period
        for said in self._said.values():
            for old in sorted(each for each in said if each <= number)[:-1]:
                del said[old]
        newest = {name: said[min(said)] for name, said in self._said.items()}
        self.batches = shares(newest, self.growth.at(iteration))
