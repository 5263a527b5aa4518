"""What each kind of trigger remembers of outcomes, and when it fires."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from littoral.manager.gate import Score
from littoral.manager.triggers import DAY_S, Cost, Decision, Facts, Fire, Wait
from littoral.units import show_duration
from littoral.watching.drift import Detector
from littoral.watching.gain import Answers, Stakes, weigh

_HIGHEST = 1000.0  # that a plot shows


class WatchManual:
    """Waits to be asked."""

    def see(self, right: bool) -> None:
        pass

    def decide(self, now: float, facts: Facts) -> Decision:
        return Wait("waits for somebody to ask")


@dataclass(slots=True)
class WatchCount:
    """Counts labels."""

    samples: int

    def see(self, right: bool) -> None:
        pass

    def decide(self, now: float, facts: Facts) -> Decision:
        told, level = f"{facts.labelled} of {self.samples} labels", facts.labelled / self.samples
        return Fire(told, level) if level >= 1 else Wait(told, level)


@dataclass(slots=True)
class WatchSchedule:
    """Looks at the clock."""

    every_s: float | None
    at_s: float | None

    def see(self, right: bool) -> None:
        pass

    def decide(self, now: float, facts: Facts) -> Decision:
        since = max(facts.created, facts.last_began if facts.last_began is not None else facts.created)
        due = min(self._due(since))
        if now >= due:
            return Fire(f"due {show_duration(now - due)} ago")
        return Wait(f"due in {show_duration(due - now)}", min(1.0, max(0.0, (now - since) / (due - since))))

    def _due(self, since: float) -> list[float]:
        """The next times after ``since``."""
        due = [] if self.every_s is None else [since + self.every_s]
        if self.at_s is not None:
            midnight = math.floor(since / DAY_S) * DAY_S
            due.append(midnight + self.at_s + (DAY_S if midnight + self.at_s <= since else 0.0))
        return due


@dataclass(slots=True)
class WatchAccuracyBelow:
    """Remembers the last outcomes."""

    least: float
    recent: deque[bool]

    def see(self, right: bool) -> None:
        self.recent.append(right)

    def decide(self, now: float, facts: Facts) -> Decision:
        seen, window = len(self.recent), self.recent.maxlen or 0
        if seen < window:
            return Wait(f"{seen} of {window} predictions seen")
        accuracy = sum(self.recent) / seen
        level = (1 - accuracy) / (1 - self.least) if self.least < 1 else float(accuracy < 1)
        told = f"accuracy {accuracy:.4f} over the last {seen} predictions, {self.least:g} wanted"
        return Fire(told, level, since=0) if accuracy < self.least else Wait(told, level)


@dataclass(slots=True)
class WatchDrift:
    """An alarm stays until a version is promoted: trying again after a refusal is a matter of the cool-down."""

    detector: Detector
    gather: int
    seen: int = 0
    alarm: int | None = None

    def see(self, right: bool) -> None:
        self.seen += 1
        if self.detector.see(0.0 if right else 1.0) and self.alarm is None:
            self.alarm = self.seen

    def decide(self, now: float, facts: Facts) -> Decision:
        if self.alarm is None:
            return Wait(f"no drift in {self.seen} predictions", float(self.detector.level))
        told, since = f"{self.detector.name} found drift at prediction {self.alarm}", self.seen - self.alarm
        if since < self.gather:
            return Wait(f"{told}; {since} of {self.gather} gathered since", 1.0)
        return Fire(told, since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What accuracy and time are worth to the operator, for how long, and how sure a loss must be."""

    usd_per_point_day: float
    horizon_s: float
    usd_per_hour: float
    confidence: float


@dataclass(slots=True)
class WatchExpectedGain:
    """Remembers the last outcomes and the first."""

    worth: Worth
    recent: deque[bool]
    first: list[bool] = field(default_factory=list)

    def see(self, right: bool) -> None:
        self.recent.append(right)
        if len(self.first) < (self.recent.maxlen or 0):
            self.first.append(right)

    def decide(self, now: float, facts: Facts) -> Decision:
        fresh = self._fresh(facts.promoted)
        if fresh is None or facts.cost is None:
            return Wait("nothing to compare with yet" if fresh is None else "the cost of an update is not known yet")
        if len(self.recent) < (self.recent.maxlen or 0):  # few answers tell little, none would tell of a loss by chance
            return Wait(f"{len(self.recent)} of {self.recent.maxlen} predictions seen")
        verdict = weigh(_answers(self.recent), fresh, _stakes(self.worth, facts, facts.cost))
        told = (
            f"{verdict.points:.2f} points of accuracy lost, worth {verdict.worth:.4g} USD to bring back; "
            f"an update costs {verdict.cost:.4g} USD"
        )
        level = min(verdict.level, _HIGHEST)
        return Fire(told, level) if verdict.update else Wait(told, level)

    def _fresh(self, promoted: Score | None) -> Answers | None:
        if promoted is not None:
            return Answers(wrong=round((1 - promoted.accuracy) * promoted.samples), seen=promoted.samples)
        return _answers(self.first) if len(self.first) == self.recent.maxlen else None


def _answers(right: Collection[bool]) -> Answers:
    return Answers(wrong=len(right) - sum(right), seen=len(right))


def _stakes(worth: Worth, facts: Facts, cost: Cost) -> Stakes:
    chance = (facts.promotions + 2) / (facts.updates + 2)
    return Stakes(
        value=100 * worth.usd_per_point_day * chance, horizon=worth.horizon_s / DAY_S, confidence=worth.confidence,
        cost=cost.usd + cost.time_s * worth.usd_per_hour / 3600,
    )  # fmt: skip
