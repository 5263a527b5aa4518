"""Is an update worth its cost? Expected gain: how many answers it would put right, and what these are worth.

A model was best right after its last update; what it has lost since is what another update is expected to bring back.
Both error rates are counted on few answers, so only what is lost with ``confidence`` counts. An update that did not
help becomes the new reference, so hopeless ones are not repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from littoral.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """So many answers, so many of them wrong."""

    wrong: int
    seen: int

    def __post_init__(self) -> None:
        if not 0 <= self.wrong <= self.seen:
            raise InputError(f"{self.wrong} wrong answers of {self.seen}", remedy="give a part of those seen")

    @property
    def rate(self) -> float:
        """The mean of the error rate's posterior, Beta(1 + wrong, 1 + right): 1/2 before anything was seen."""
        return (1 + self.wrong) / (2 + self.seen)

    @property
    def variance(self) -> float:
        """Of the same posterior."""
        return self.rate * (1 - self.rate) / (3 + self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What is won and spent: ``value`` and ``cost`` in the same unit, whichever it is."""

    value: float  # of one right answer instead of a wrong one
    horizon: float  # answers that profit from an update
    cost: float  # of an update
    confidence: float = 0.9

    def __post_init__(self) -> None:
        for name in ("value", "horizon", "cost"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}", remedy="give a number of at least 0", key=name)
        if not 0.5 <= self.confidence < 1:
            remedy = "give a number of at least 0.5 and under 1"
            raise InputError(f"confidence is {self.confidence}", remedy=remedy, key="confidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``update`` if ``worth`` is over ``cost``; ``points`` of accuracy are expected."""

    points: float
    worth: float
    cost: float

    @property
    def update(self) -> bool:
        return self.level > 1

    @property
    def level(self) -> float:
        """Worth over cost: a signal to plot, 1 is the threshold. An update for free is at 0 or infinity."""
        return self.worth / self.cost if self.cost else math.inf if self.worth else 0.0


def lost(now: Answers, fresh: Answers, confidence: float) -> float:
    """The share of answers that have become wrong since ``fresh``: with ``confidence`` no less; never negative.

    The difference of the two posteriors, taken as normal.
    """
    deviation = math.sqrt(now.variance + fresh.variance)
    return max(0.0, now.rate - fresh.rate - NormalDist().inv_cdf(confidence) * deviation)


def weigh(now: Answers, fresh: Answers, stakes: Stakes) -> Verdict:
    """The last answers against those right after the last update.

    >>> stakes = Stakes(value=0.01, horizon=5000, cost=2.0)
    >>> weigh(Answers(wrong=60, seen=200), Answers(wrong=10, seen=200), stakes).update
    True
    >>> weigh(Answers(wrong=6, seen=20), Answers(wrong=1, seen=20), stakes).points < 10
    True
    """
    share = lost(now, fresh, stakes.confidence)
    return Verdict(points=100 * share, worth=share * stakes.horizon * stakes.value, cost=stakes.cost)
