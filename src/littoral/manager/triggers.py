"""When to update a model: pure decisions. Outcomes and facts in, ``Fire`` or ``Wait`` out, each with its reason.

A trigger is told every outcome of the served version since it was promoted (``see``), and asked from time to time
(``decide``). What it remembers is rebuilt after a restart by telling it the same outcomes again. Time is an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from littoral.manager.gate import Score
from littoral.units import show_duration

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an update should take, as its plan predicts."""

    time_s: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """The trigger's last alarm that an update answered, as long as no follow-up did; counted in labels."""

    update: int  # its number
    since: int  # labels since the alarm
    then: int  # the same, when the model's last update began
    window: int  # labels that make all of the training window new


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a model besides its outcomes; times in seconds since 1970, None: never."""

    labelled: int = 0  # labels that arrived since the last update began
    created: float = 0.0  # when the trigger was
    last_began: float | None = None  # the last update
    last_ended: float | None = None
    last_promoted: bool = True  # whether it ended with a promotion
    updating: bool = False
    promoted: Score | None = None  # of the served version, at its promotion
    updates: int = 0  # of the last ten that ended ...
    promotions: int = 0  # ... and these were promoted
    cost: Cost | None = None
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True)
class Fire:
    """Update now. ``level`` is what a plot shows; 1 is where triggers fire."""

    reason: str
    level: float = 1.0
    since: int | None = None  # predictions since the alarm, where it was one
    follows: int | None = None  # the update that this one is a follow-up of


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now."""

    reason: str
    level: float = 0.0


Decision = Fire | Wait


class Trigger(Protocol):
    """One reason to update."""

    def see(self, right: bool) -> None:
        """An outcome of the served version."""
        ...

    def decide(self, now: float, facts: Facts) -> Decision:
        """Whether it is time; asking changes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """Updates begin at least ``least_s`` apart, and ``cool_down_s`` after one that promoted nothing."""

    least_s: float = 60.0
    cool_down_s: float = 600.0

    def hold(self, now: float, facts: Facts) -> str | None:
        """Why nothing may begin now; None if it may."""
        if facts.updating:
            return "an update is under way"
        if facts.last_began is not None and now - facts.last_began < self.least_s:
            return f"the last update began {_ago(now - facts.last_began)}; {show_duration(self.least_s)} must pass"
        if facts.last_ended is not None and not facts.last_promoted and now - facts.last_ended < self.cool_down_s:
            passed = _ago(now - facts.last_ended)
            return f"the last update promoted nothing {passed}; {show_duration(self.cool_down_s)} must pass"
        return None


def debounced(decision: Decision, hold: str | None) -> Decision:
    """A trigger that would fire waits while something holds it; its level still shows that it would."""
    if isinstance(decision, Fire) and hold is not None:
        return Wait(f"{decision.reason}; but {hold}", decision.level)
    return decision


def followed_up(decision: Decision, windows: float, alarm: Alarm | None) -> Decision:
    """Update once more when ``windows`` of the training window have arrived since an alarm; 0 is never.

    At the alarm most of the training window is still from before the drift. A new alarm goes first, since it has a
    follow-up of its own; and none is needed if an update has begun late enough, whoever asked for it.
    """
    if alarm is None or isinstance(decision, Fire):
        return decision
    needed = math.ceil(windows * alarm.window)
    if alarm.then >= needed:
        return decision
    told = f"follow-up of update {alarm.update}: {alarm.since} of {needed} labels since its alarm"
    if alarm.since < needed or decision.level >= 1:
        return Wait(f"{decision.reason}; {told}", decision.level)
    return Fire(told, since=alarm.since, follows=alarm.update)


def _ago(seconds: float) -> str:
    return f"{show_duration(max(0.0, seconds))} ago"
