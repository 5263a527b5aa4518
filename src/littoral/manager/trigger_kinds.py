"""The kinds of trigger: count, schedule, accuracy below, drift, and expected gain against cost.

Each is made from checked settings by ``make_trigger``. ``manual`` never fires by itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from littoral.document import suggest
from littoral.errors import InputError
from littoral.manager.gate import Score
from littoral.manager.triggers import DAY_S, Cost, Debounce, Decision, Facts, Fire, Trigger, Wait
from littoral.units import show_duration
from littoral.watching.drift import Detector, detector

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Duration = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Window = Annotated[int, msgspec.Meta(ge=2, le=100_000)]


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    debounce_s: _Duration = 60.0
    cool_down_s: _Duration = 600.0

    @property
    def debounce(self) -> Debounce:
        return Debounce(least_s=self.debounce_s, cool_down_s=self.cool_down_s)


class Manual(_Settings):
    """Only when somebody asks."""

    def make(self) -> Trigger:
        return _Manual()


class Count(_Settings):
    """After ``samples`` labels since the last update began."""

    samples: Annotated[int, msgspec.Meta(ge=1, le=10**9)]

    def make(self) -> Trigger:
        return _Count(self.samples)


class Schedule(_Settings):
    """Every ``every_s`` seconds, or daily at ``at`` (UTC, such as 03:30), or both."""

    every_s: Annotated[float, msgspec.Meta(ge=1, le=1e9)] | None = None
    at: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None

    def __post_init__(self) -> None:
        if self.every_s is None and self.at is None:
            raise ValueError("a schedule needs every_s or at")

    def make(self) -> Trigger:
        return _Schedule(self.every_s, None if self.at is None else 3600.0 * int(self.at[:2]) + 60 * int(self.at[3:]))


class AccuracyBelow(_Settings):
    """When the last ``window`` predictions were right less often than ``accuracy``."""

    accuracy: Annotated[float, msgspec.Meta(gt=0, le=1)]
    window: _Window = 200

    def make(self) -> Trigger:
        return _AccuracyBelow(self.accuracy, deque(maxlen=self.window))


class Drift(_Settings):
    """When a detector finds that predictions got worse: adwin, page-hinkley or kswin, with its ``settings``."""

    detector: str = "adwin"
    settings: dict[str, Any] = {}

    def make(self) -> Trigger:
        return _Drift(detector(self.detector, **self.settings))


class ExpectedGain(_Settings):
    """When the accuracy that an update should bring back is worth more than the update.

    With a the accuracy at promotion, r the share of right predictions among the last n <= ``window``, and u of the
    last t updates promoted:

        gain    = max(0, a - r) * n / (n + prior) * (u + 2) / (t + 2)
        benefit = 100 * gain * usd_per_point_day * horizon_s / 86400
        cost    = predicted cost + predicted seconds * usd_per_hour / 3600

    It fires when the benefit is at least the cost. The first factor beside the loss distrusts little evidence, the
    second an update that often came to nothing. Where no accuracy is known from the promotion, a is that of the
    first ``window`` predictions.
    """

    usd_per_point_day: _Positive
    horizon_s: _Positive = 7 * DAY_S
    usd_per_hour: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    window: _Window = 500
    prior: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 50.0

    def make(self) -> Trigger:
        return _ExpectedGain(self, deque(maxlen=self.window))


Settings = Manual | Count | Schedule | AccuracyBelow | Drift | ExpectedGain
KINDS: dict[str, type[_Settings]] = {
    "manual": Manual, "count": Count, "schedule": Schedule, "accuracy-below": AccuracyBelow, "drift": Drift,
    "expected-gain": ExpectedGain,
}  # fmt: skip


def check_settings(kind: str, settings: Mapping[str, Any]) -> Any:
    """The settings of a trigger, or what is wrong with them."""
    if kind not in KINDS:
        raise InputError(f"unknown trigger {kind[:100]!r}", remedy=suggest(kind, list(KINDS)), key="kind")
    try:
        checked: Any = msgspec.convert(dict(settings), KINDS[kind])
    except msgspec.ValidationError as error:
        raise InputError(f"{kind}: {error}", remedy="see the settings of this kind", key="settings") from error
    checked.make()
    return checked


class _Manual:
    def see(self, right: bool) -> None:
        pass

    def decide(self, now: float, facts: Facts) -> Decision:
        return Wait("waits for somebody to ask")


@dataclass(slots=True)
class _Count:
    samples: int

    def see(self, right: bool) -> None:
        pass

    def decide(self, now: float, facts: Facts) -> Decision:
        told, level = f"{facts.labelled} of {self.samples} labels", facts.labelled / self.samples
        return Fire(told, level) if level >= 1 else Wait(told, level)


@dataclass(slots=True)
class _Schedule:
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
class _AccuracyBelow:
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
        return Fire(told, level) if accuracy < self.least else Wait(told, level)


@dataclass(slots=True)
class _Drift:
    """An alarm stays until a version is promoted: trying again after a refusal is a matter of the cool-down."""

    detector: Detector
    seen: int = 0
    alarm: int | None = None

    def see(self, right: bool) -> None:
        self.seen += 1
        if self.detector.see(0.0 if right else 1.0) and self.alarm is None:
            self.alarm = self.seen

    def decide(self, now: float, facts: Facts) -> Decision:
        if self.alarm is not None:
            return Fire(f"{self.detector.name} found drift at prediction {self.alarm} of this version")
        return Wait(f"no drift in {self.seen} predictions", float(self.detector.level))


@dataclass(slots=True)
class _ExpectedGain:
    rule: ExpectedGain
    recent: deque[bool]
    first: list[bool] = field(default_factory=list)

    def see(self, right: bool) -> None:
        self.recent.append(right)
        if len(self.first) < self.rule.window:
            self.first.append(right)

    def decide(self, now: float, facts: Facts) -> Decision:
        before = facts.promoted.accuracy if facts.promoted is not None else self._first()
        if before is None or not self.recent or facts.cost is None:
            return Wait("nothing to compare with yet" if facts.cost is not None else "the cost is not known yet")
        gain = expected_gain(self.rule, before, Score(accuracy=self._now(), samples=len(self.recent)), facts)
        benefit = 100 * gain * self.rule.usd_per_point_day * self.rule.horizon_s / DAY_S
        cost = price(self.rule, facts.cost)
        told = f"{100 * gain:.2f} points expected, worth {benefit:.4g} USD; the update costs {cost:.4g} USD"
        level = benefit / cost if cost > 0 else float(benefit > 0)
        return Fire(told, level) if benefit >= cost and gain > 0 else Wait(told, level)

    def _now(self) -> float:
        return sum(self.recent) / len(self.recent)

    def _first(self) -> float | None:
        return sum(self.first) / len(self.first) if len(self.first) == self.rule.window else None


def expected_gain(rule: ExpectedGain, before: float, recent: Score, facts: Facts) -> float:
    """The accuracy that an update should bring back; see ``ExpectedGain``.

    >>> rule = ExpectedGain(usd_per_point_day=1.0, prior=50)
    >>> round(expected_gain(rule, 0.9, Score(accuracy=0.7, samples=150), Facts(updates=2, promotions=1)), 4)
    0.1125
    """
    lost = max(0.0, before - recent.accuracy)
    evidence = recent.samples / (recent.samples + rule.prior)
    return lost * evidence * (facts.promotions + 2) / (facts.updates + 2)


def price(rule: ExpectedGain, cost: Cost) -> float:
    """What an update costs, with the time of whoever waits for it."""
    return cost.usd + cost.time_s * rule.usd_per_hour / 3600
