"""Drift detectors: shown one number per answered sample (1 for wrong, 0 for right), they say when it got worse.

The tests are river's. Here they get one face, checked settings, a signal to plot, and a side: an error rate that falls
is no reason to train again. Memory is constant, and the same values give the same alarms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from littoral.document import suggest
from littoral.errors import InputError, MissingExtra, brief

MOST = 1_000_000  # of any setting
_SURE = 1e-300  # smaller chances are all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A number a detector can be told: its default and its limits."""

    default: float
    low: float
    high: float
    whole: bool = False
    strict: bool = False  # the limits themselves are refused

    def check(self, key: str, value: object) -> float:
        """The value, or why it cannot be."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not self._inside(value):
            raise InputError(f"{key} is {brief(value)}", remedy=f"give {self._wanted()}", key=key)
        return value

    def _inside(self, value: float) -> bool:
        return self.low < value < self.high if self.strict else self.low <= value <= self.high

    def _wanted(self) -> str:
        above, below = ("over", "under") if self.strict else ("of at least", "at most")
        return f"a {'whole ' if self.whole else ''}number {above} {self.low:g} and {below} {self.high:g}"


class Detector(ABC):
    """Shown one value after the other, in their order; ``detector`` makes one."""

    name: ClassVar[str]
    known: ClassVar[dict[str, Setting]]

    def __init__(self, *, worse_only: bool = True, **settings: float) -> None:
        self.worse_only, self.settings = worse_only, settings
        self._start()

    def see(self, value: float) -> bool:
        """True where drift is declared now; the test starts afresh with the next value then."""
        if not math.isfinite(value):
            raise InputError(f"a drift detector was shown {value}", remedy="give finite numbers")
        return self._take(float(value))

    @property
    @abstractmethod
    def level(self) -> float:
        """How near an alarm is after the last value: 0 is far, 1 is the threshold."""

    def reset(self) -> None:
        """Forget all values: the model was changed, so its errors are a new stream."""
        self._start()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _take(self, value: float) -> bool: ...


class Adwin(Detector):
    """Bifet, Gavaldà: Learning from Time-Changing Data with Adaptive Windowing, SDM 2007.

    Keeps as long a window as has no two parts with different means. It looks every ``clock`` values, each time with a
    chance of a false alarm of at most ``delta``. For values from 0 to 1.

    The level is the test's ratio where the recent part has 32, 64, ... 1024 values. The test itself cuts at its
    buckets and does not look at every value, so the level may pass 1 a little before the alarm.

    >>> adwin = detector("adwin")
    >>> [step for step in range(1000) if adwin.see(step >= 500)]
    [511]
    """

    name = "adwin"
    known: ClassVar = {
        "delta": Setting(default=0.002, low=0, high=1, strict=True),
        "clock": Setting(default=32, low=1, high=MOST, whole=True),
        "min_window_length": Setting(default=5, low=1, high=MOST, whole=True),
        "grace_period": Setting(default=10, low=1, high=MOST, whole=True),
    }
    _PARTS: ClassVar = np.array([32, 64, 128, 256, 512, 1024])

    def _start(self) -> None:
        self._test = _river("ADWIN", **self.settings)
        self._recent: deque[float] = deque(maxlen=int(self._PARTS[-1]))
        self._alarmed = False

    def _take(self, value: float) -> bool:
        before = self._test.estimation
        self._test.update(value)
        self._recent.append(value)
        if changed := bool(self._test.drift_detected):
            self._recent.clear()
        self._alarmed = changed and (not self.worse_only or self._test.estimation > before)
        return self._alarmed

    @property
    def level(self) -> float:
        parts = self._PARTS[min(len(self._recent), self._test.width - 1) >= self._PARTS]
        if self._alarmed or not len(parts):
            return float(self._alarmed)
        sums = np.cumsum(np.array(self._recent)[::-1])[parts - 1]
        olds = self._test.width - parts
        apart = sums / parts - (self._test.total - sums) / olds
        ratios = (apart if self.worse_only else np.abs(apart)) / self._allowed(parts, olds)
        return max(0.0, float(ratios.max()))

    def _allowed(self, news: np.ndarray[Any, Any], olds: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """How far apart the means may be (the paper's epsilon_cut, with river's shortest part)."""
        least = self.settings["min_window_length"] - 1
        shares = 1 / np.maximum(news - least, 1) + 1 / np.maximum(olds - least, 1)
        surprise = math.log(2 * math.log(self._test.width) / self.settings["delta"])
        return np.asarray(np.sqrt(2 * shares * self._test.variance * surprise) + 2 / 3 * shares * surprise)


class PageHinkley(Detector):
    """Page: Continuous Inspection Schemes, Biometrika 1954.

    Adds up by how much the values exceed their mean so far plus ``delta``; when the sum has risen ``threshold`` above
    its lowest point, that is drift. A rise by d is found after about ``threshold / (d - delta)`` values. With values of
    variance s and without drift, alarms are about ``s / 2 delta**2 * (exp(2 delta threshold / s) - 1) - threshold /
    delta`` values apart. ``alpha`` fades the sum a little.

    >>> page_hinkley = detector("page-hinkley", threshold=20)
    >>> [step for step in range(1000) if page_hinkley.see(step >= 500)]
    [520]
    """

    name = "page-hinkley"
    known: ClassVar = {
        "delta": Setting(default=0.005, low=0, high=MOST),
        "threshold": Setting(default=50.0, low=0, high=MOST, strict=True),
        "min_instances": Setting(default=30, low=1, high=MOST, whole=True),
        "alpha": Setting(default=0.9999, low=0, high=1),
    }

    def _start(self) -> None:
        self._test = _river("PageHinkley", mode="up" if self.worse_only else "both", **self.settings)
        self._seen = 0

    def _take(self, value: float) -> bool:
        self._seen = 1 if self._test.drift_detected else self._seen + 1
        self._test.update(value)
        return bool(self._test.drift_detected)

    @property
    def level(self) -> float:
        test = self._test
        if self._seen < self.settings["min_instances"]:
            return 0.0
        risen, fallen = test._sum_increase - test._min_increase, test._max_decrease - test._sum_decrease
        return float(risen if self.worse_only else max(risen, fallen)) / self.settings["threshold"]


class Kswin(Detector):
    """Raab, Heusinger, Schleif: Reactive Soft Prototype Computing for Concept Drift Streams, Neurocomputing 2020.

    A Kolmogorov-Smirnov test of the last ``stat_size`` values against as many drawn from the rest of the last
    ``window_size``, at every value, each with a chance of a false alarm of at most ``alpha``. It finds any change of
    the distribution; worse is where the mean rose. A value takes 0.3 ms, the others' 1 us.

    >>> kswin = detector("kswin")
    >>> [step for step in range(1000) if kswin.see(step >= 500)]
    [524]
    """

    name = "kswin"
    known: ClassVar = {
        "alpha": Setting(default=0.005, low=0, high=1, strict=True),
        "window_size": Setting(default=300, low=2, high=10_000, whole=True),
        "stat_size": Setting(default=100, low=1, high=5_000, whole=True),
        "seed": Setting(default=0, low=0, high=MOST, whole=True),
    }

    def __init__(self, *, worse_only: bool = True, **settings: float) -> None:
        window, recent = settings["window_size"], settings["stat_size"]
        if window < 2 * recent:
            remedy = f"give at least twice stat_size: {2 * recent}"
            raise InputError(f"window_size is {window} with a stat_size of {recent}", remedy=remedy, key="window_size")
        super().__init__(worse_only=worse_only, **settings)

    def _start(self) -> None:
        self._test = _river("KSWIN", **self.settings)
        self._level = 0.0

    def _take(self, value: float) -> bool:
        window, size = [*self._test.window, value], self.settings["window_size"]
        self._test.update(value)
        drifted = bool(self._test.drift_detected)
        tested = drifted or len(self._test.window) == size
        if not tested or (self.worse_only and not self._risen(window)):
            self._level = 0.0
            return False
        self._level = math.log(max(self._test.p_value, _SURE)) / math.log(self.settings["alpha"])
        return drifted

    def _risen(self, values: list[float]) -> bool:
        """Whether the mean of the values under test is over that of those before."""
        recent = int(self.settings["stat_size"])
        return float(np.mean(values[-recent:])) > float(np.mean(values[:-recent]))

    @property
    def level(self) -> float:
        return self._level


DETECTORS: dict[str, type[Detector]] = {kind.name: kind for kind in (Adwin, PageHinkley, Kswin)}


def detector(name: str, **settings: Any) -> Detector:
    """A detector by its name: ``adwin``, ``page-hinkley`` or ``kswin``.

    ``worse_only=False`` also alarms where values fall. The other settings are those of river, by its names.

    >>> detector("adwin", delta=0.01).see(0.0)
    False
    """
    if name not in DETECTORS:
        raise InputError(f"unknown drift detector {brief(name)}", remedy=suggest(str(name), list(DETECTORS)))
    kind, worse_only = DETECTORS[name], settings.pop("worse_only", True)
    if not isinstance(worse_only, bool):
        raise InputError(f"worse_only is {brief(worse_only)}", remedy="give true or false", key="worse_only")
    for key in settings:
        if key not in kind.known:
            remedy = suggest(key, [*kind.known, "worse_only"])
            raise InputError(f"{name} has no setting {brief(key)}", remedy=remedy, key=key)
    checked = {key: kind.known[key].check(key, settings.get(key, kind.known[key].default)) for key in kind.known}
    return kind(worse_only=worse_only, **checked)


def _river(test: str, **settings: Any) -> Any:
    try:
        from river import drift
    except ImportError as error:
        raise MissingExtra("river", "serve", "watching for drift") from error
    return getattr(drift, test)(**settings)
