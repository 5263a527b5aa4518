"""When to update, in the drift study: never, by the number of samples, or by a trigger of the manager's.

The triggers are the manager's own, with their follow-ups, told and asked as it does. Their debounce, which counts
seconds, has no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from drift_courses import Course
from littoral.manager.trigger_kinds import check_settings
from littoral.manager.triggers import DAY_S, Alarm, Cost, Facts, Fire, followed_up

COST = 20.0  # right answers that an update must bring to be worth it: a choice, the same for all policies
HORIZON = 2000.0  # answers that profit from an update
LOOK = 10  # samples between two questions to a trigger
FIRST = 200  # answers that tell how good the first version is
STAKES = {"usd_per_point_day": HORIZON / 100, "horizon_s": DAY_S, "window": 200}  # a right answer is a dollar


class Policy(Protocol):
    """Told whether each answer was wrong, it says when to update; what it asks for is done at once."""

    def see(self, wrong: bool) -> Fire | None: ...


class Never:
    """No update at all."""

    def see(self, wrong: bool) -> Fire | None:
        return None


@dataclass
class Every:
    """By the number of samples; in a stream this is the schedule as well."""

    samples: int
    _seen: int = 0

    def see(self, wrong: bool) -> Fire | None:
        self._seen += 1
        return Fire("due") if self._seen % self.samples == 0 else None


class Triggered:
    """A trigger as the manager would have it: made anew with every update, its alarms remembered for follow-ups."""

    def __init__(self, kind: str, settings: dict[str, Any], window: int) -> None:
        self._settings, self._window = check_settings(kind, settings), window
        self._trigger = self._settings.make()
        self._clock, self._updates, self._last = 0, 0, 0
        self._alarm: tuple[int, int] | None = None  # the update that answered it, and when it was

    def see(self, wrong: bool) -> Fire | None:
        self._clock += 1
        self._trigger.see(not wrong)
        if self._clock % LOOK:
            return None
        facts = Facts(cost=Cost(time_s=0.0, usd=COST))
        decision = followed_up(self._trigger.decide(0.0, facts), self._settings.again_after, self._answered())
        if not isinstance(decision, Fire):
            return None
        self._remember(decision)
        return decision

    def _answered(self) -> Alarm | None:
        if self._alarm is None:
            return None
        update, place = self._alarm
        return Alarm(update=update, since=self._clock - place, then=self._last - place, window=self._window)

    def _remember(self, fire: Fire) -> None:
        self._updates += 1
        self._last, self._trigger = self._clock, self._settings.make()
        alarmed = fire.follows is None and fire.since is not None
        self._alarm = (self._updates, self._clock - (fire.since or 0)) if alarmed else None


class Below:
    """``accuracy-below``, wanting so much less than what the first version had right at first."""

    def __init__(self, margin: float, follow_up: float, window: int) -> None:
        self._margin, self._follow_up, self._window = margin, follow_up, window
        self._first: list[bool] = []
        self._watch: Triggered | None = None

    def see(self, wrong: bool) -> Fire | None:
        if self._watch is not None:
            return self._watch.see(wrong)
        self._first.append(wrong)
        if len(self._first) == FIRST:
            wanted = max(0.01, 1 - sum(self._first) / FIRST - self._margin)
            self._watch = Triggered("accuracy-below", {"accuracy": wanted, "follow_up": self._follow_up}, self._window)
        return None


def watcher(name: str, settings: dict[str, Any], course: Course) -> Policy:
    """By the name of a detector, or ``below`` or ``gain``."""
    if name == "below":
        return Below(window=course.window, **settings)
    if name == "gain":
        return Triggered("expected-gain", {**STAKES, **settings}, course.window)
    own = {key: value for key, value in settings.items() if key in ("gather", "follow_up")}
    rest = {key: value for key, value in settings.items() if key not in own}
    return Triggered("drift", {"detector": name, "settings": rest, **own}, course.window)
