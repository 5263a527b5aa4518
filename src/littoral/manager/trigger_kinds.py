"""The kinds of trigger: count, schedule, accuracy below, drift, and expected gain against cost.

A kind is a record of checked settings, whose ``make`` gives the trigger. ``manual`` never fires by itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from littoral.document import suggest
from littoral.errors import InputError
from littoral.manager.keys import complaint
from littoral.manager.trigger_rules import (
    WatchAccuracyBelow,
    WatchCount,
    WatchDrift,
    WatchExpectedGain,
    WatchManual,
    WatchSchedule,
    Worth,
)
from littoral.manager.triggers import DAY_S, Debounce, Trigger
from littoral.watching.drift import detector

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Duration = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Window = Annotated[int, msgspec.Meta(ge=2, le=100_000)]


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    debounce_s: _Duration = 60.0
    cool_down_s: _Duration = 600.0

    @property
    def debounce(self) -> Debounce:
        return Debounce(least_s=self.debounce_s, cool_down_s=self.cool_down_s)

    @property
    def again_after(self) -> float:
        """Training windows from an alarm to its follow-up; 0: there is none."""
        return 0.0


class _Alarming(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """These fire when a model got worse, and once more (``triggers.followed_up``); with a ``follow_up`` of 0 not."""

    follow_up: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1.0

    @property
    def again_after(self) -> float:
        return self.follow_up


class Manual(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only when somebody asks."""

    def make(self) -> Trigger:
        return WatchManual()


class Count(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After ``samples`` labels since the last update began."""

    samples: Annotated[int, msgspec.Meta(ge=1, le=10**9)]

    def make(self) -> Trigger:
        return WatchCount(self.samples)


class Schedule(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every ``every_s`` seconds, or daily at ``at`` (UTC, such as 03:30), or both."""

    every_s: Annotated[float, msgspec.Meta(ge=1, le=1e9)] | None = None
    at: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None

    def __post_init__(self) -> None:
        if self.every_s is None and self.at is None:
            raise ValueError("a schedule needs every_s or at")

    def make(self) -> Trigger:
        return WatchSchedule(
            self.every_s, None if self.at is None else 3600.0 * int(self.at[:2]) + 60 * int(self.at[3:])
        )


class AccuracyBelow(_Alarming, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the last ``window`` predictions were right less often than ``accuracy``."""

    accuracy: Annotated[float, msgspec.Meta(gt=0, le=1)]
    window: _Window = 200

    def make(self) -> Trigger:
        return WatchAccuracyBelow(self.accuracy, deque(maxlen=self.window))


class Drift(_Alarming, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a detector finds that predictions got worse: adwin, page-hinkley or kswin, with its ``settings``.

    It fires ``gather`` predictions after the alarm, so that there is something new to learn from.
    """

    detector: str = "adwin"
    settings: dict[str, Any] = {}
    gather: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 200

    def make(self) -> Trigger:
        return WatchDrift(detector(self.detector, **self.settings), self.gather)


class ExpectedGain(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the accuracy that an update should bring back is worth more than the update.

    ``watching.gain`` says how many points were lost since the promotion, with ``confidence`` no less: the last
    ``window`` predictions against the held-out samples that the version was judged on, or against its own first
    ``window`` predictions where it never was judged. With u of the last t updates promoted:

        worth = points lost * usd_per_point_day * horizon_s / 86400 * (u + 2) / (t + 2)
        cost  = predicted cost + predicted seconds * usd_per_hour / 3600

    It fires when the worth is over the cost. The last factor distrusts updates that often came to nothing. It has no
    follow-up, which nobody would have weighed, but asks again while enough is lost.
    """

    usd_per_point_day: _Positive
    horizon_s: _Positive = 7 * DAY_S
    usd_per_hour: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    window: _Window = 500
    confidence: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.9

    def make(self) -> Trigger:
        worth = Worth(
            usd_per_point_day=self.usd_per_point_day, horizon_s=self.horizon_s, usd_per_hour=self.usd_per_hour,
            confidence=self.confidence,
        )  # fmt: skip
        return WatchExpectedGain(worth, deque(maxlen=self.window))


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
        raise complaint(error, KINDS[kind], kind, at="settings") from error
    checked.make()
    return checked
