"""The gate: a new version is promoted only if it does at least as well on recent samples that nobody trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How often a version is right on held-out recent samples."""

    accuracy: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """May it pass, and why."""

    passed: bool
    reason: str


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a version must show on the newest ``window`` held-out samples, of which there must be ``least_samples``.

    Accuracy at least that of the current version plus ``margin`` (negative: so much worse is tolerated), and at least
    ``floor`` where one is given.

    >>> Gate(least_samples=50).judge(Score(accuracy=0.9, samples=80), Score(accuracy=0.7, samples=80)).reason
    'accuracy 0.9000 on 80 held-out samples, the current version 0.7000'
    """

    margin: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0
    least_samples: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 50
    floor: _Share | None = None
    window: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 2000

    def __post_init__(self) -> None:
        if self.window < self.least_samples:
            raise ValueError(f"a window of {self.window} never holds the least_samples of {self.least_samples}")

    def judge(self, candidate: Score, current: Score | None) -> Verdict:
        """Both were scored on the same samples; without a current version only the floor counts."""
        if candidate.samples < self.least_samples:
            found = f"only {candidate.samples} held-out samples with labels, {self.least_samples} are needed"
            return Verdict(passed=False, reason=found)
        told = f"accuracy {candidate.accuracy:.4f} on {candidate.samples} held-out samples"
        if self.floor is not None and candidate.accuracy < self.floor:
            return Verdict(passed=False, reason=f"{told}, below the floor of {self.floor:g}")
        if current is None:
            return Verdict(passed=True, reason=f"{told}, the first version")
        needed = current.accuracy + self.margin
        compared = f"{told}, the current version {current.accuracy:.4f}"
        if candidate.accuracy < needed:
            return Verdict(passed=False, reason=f"{compared}; {needed:.4f} were needed")
        return Verdict(passed=True, reason=compared)
