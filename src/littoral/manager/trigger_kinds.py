"""The kinds of trigger: count, schedule, accuracy below, drift, and expected gain against cost.

Each is made from checked settings by ``make_trigger``. ``manual`` never fires by itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from littoral.document import suggest
from littoral.errors import InputError
from littoral.manager.gate import Score
from littoral.manager.triggers import DAY_S, Cost, Debounce, Decision, Facts, Fire, Trigger, Wait
from littoral.units import show_duration
from littoral.watching.drift import Detector, detector
from littoral.watching.gain import Answers, Stakes, weigh

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Duration = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_HIGHEST = 1000.0  # that a plot shows
_Window = Annotated[int, msgspec.Meta(ge=2, le=100_000)]


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    debounce_s: _Duration = 60.0
    cool_down_s: _Duration = 600.0

    @property
    def debounce(self) -> Debounce:
        return Debounce(least_s=self.debounce_s, cool_down_s=self.cool_down_s)


class Manual(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only when somebody asks."""

    def make(self) -> Trigger:
        return _Manual()


class Count(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After ``samples`` labels since the last update began."""

    samples: Annotated[int, msgspec.Meta(ge=1, le=10**9)]

    def make(self) -> Trigger:
        return _Count(self.samples)


class Schedule(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every ``every_s`` seconds, or daily at ``at`` (UTC, such as 03:30), or both."""

    every_s: Annotated[float, msgspec.Meta(ge=1, le=1e9)] | None = None
    at: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None

    def __post_init__(self) -> None:
        if self.every_s is None and self.at is None:
            raise ValueError("a schedule needs every_s or at")

    def make(self) -> Trigger:
        return _Schedule(self.every_s, None if self.at is None else 3600.0 * int(self.at[:2]) + 60 * int(self.at[3:]))


class AccuracyBelow(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the last ``window`` predictions were right less often than ``accuracy``."""

    accuracy: Annotated[float, msgspec.Meta(gt=0, le=1)]
    window: _Window = 200

    def make(self) -> Trigger:
        return _AccuracyBelow(self.accuracy, deque(maxlen=self.window))


class Drift(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a detector finds that predictions got worse: adwin, page-hinkley or kswin, with its ``settings``.

    It fires ``gather`` predictions after the alarm, so that there is something new to learn from.
    """

    detector: str = "adwin"
    settings: dict[str, Any] = {}
    gather: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 200

    def make(self) -> Trigger:
        return _Drift(detector(self.detector, **self.settings), self.gather)


class ExpectedGain(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the accuracy that an update should bring back is worth more than the update.

    ``watching.gain`` says how many points were lost since the promotion, with ``confidence`` no less: the last
    ``window`` predictions against the held-out samples that the version was judged on, or against its own first
    ``window`` predictions where it never was judged. With u of the last t updates promoted:

        worth = points lost * usd_per_point_day * horizon_s / 86400 * (u + 2) / (t + 2)
        cost  = predicted cost + predicted seconds * usd_per_hour / 3600

    It fires when the worth is over the cost. The last factor distrusts updates that often came to nothing.
    """

    usd_per_point_day: _Positive
    horizon_s: _Positive = 7 * DAY_S
    usd_per_hour: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    window: _Window = 500
    confidence: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.9

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
    for name, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{kind}: {name} is {value}", remedy="give a finite number", key="settings")
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
        return Fire(told)


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
        fresh = self._fresh(facts.promoted)
        if fresh is None or facts.cost is None:
            return Wait("nothing to compare with yet" if fresh is None else "the cost of an update is not known yet")
        verdict = weigh(_answers(self.recent), fresh, _stakes(self.rule, facts, facts.cost))
        told = (
            f"{verdict.points:.2f} points of accuracy lost, worth {verdict.worth:.4g} USD to bring back; "
            f"an update costs {verdict.cost:.4g} USD"
        )
        level = min(verdict.level, _HIGHEST)
        return Fire(told, level) if verdict.update else Wait(told, level)

    def _fresh(self, promoted: Score | None) -> Answers | None:
        if promoted is not None:
            return Answers(wrong=round((1 - promoted.accuracy) * promoted.samples), seen=promoted.samples)
        return _answers(self.first) if len(self.first) == self.rule.window else None


def _answers(right: Collection[bool]) -> Answers:
    return Answers(wrong=len(right) - sum(right), seen=len(right))


def _stakes(rule: ExpectedGain, facts: Facts, cost: Cost) -> Stakes:
    chance = (facts.promotions + 2) / (facts.updates + 2)
    return Stakes(
        value=100 * rule.usd_per_point_day * chance, horizon=rule.horizon_s / DAY_S, confidence=rule.confidence,
        cost=cost.usd + cost.time_s * rule.usd_per_hour / 3600,
    )  # fmt: skip
