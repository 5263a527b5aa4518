"""A course served under a policy: what was right, what it took, and which alarms were for nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from drift_courses import Course, Model
from drift_policies import COST, Policy

BLOCK = 256  # samples answered at once; what comes after an update is answered again


@dataclass(frozen=True)
class Outcome:
    """What came of a policy on a course."""

    first: int
    wrong: list[bool]  # every answer after the first version's samples
    alarms: list[int]
    updates: list[int]
    follow_ups: int  # of these
    trained: int  # samples times epochs, without the first version's
    seconds: float  # of processor time that this took
    watching: float  # the same, of the policy

    @property
    def accuracy(self) -> float:
        return 1 - sum(self.wrong) / len(self.wrong)

    @property
    def net(self) -> float:
        """Right answers in a thousand, less the cost of the updates."""
        return 1000 * (self.accuracy - COST * len(self.updates) / len(self.wrong))


def serve(course: Course, policy: Policy, seed: int) -> Outcome:
    """Answer, then learn the label, then update on the last window if told so."""
    model = Model(course, seed)
    model.train(course.x[: course.first], course.y[: course.first], 4 * course.epochs)
    model.trained, model.seconds, watching = 0, 0.0, 0.0
    wrong: list[bool] = []
    alarms: list[int] = []
    updates: list[int] = []
    step, follow_ups = course.first, 0
    while step < len(course.y):
        block = slice(step, step + BLOCK)
        for miss in (model.answers(course.x[block]) != course.y[block]).tolist():
            began = time.process_time()
            fire = policy.see(miss)
            watching += time.process_time() - began
            wrong.append(miss)
            step += 1
            if fire is None:
                continue
            if fire.follows is None:
                alarms.append(step - 1 - (fire.since or 0))
            follow_ups += fire.follows is not None
            updates.append(step)
            recent = slice(max(0, step - course.window), step)
            model.train(course.x[recent], course.y[recent], course.epochs)
            break
    return Outcome(course.first, wrong, alarms, updates, follow_ups, model.trained, model.seconds, watching)


@dataclass(frozen=True)
class Found:
    """The alarms of one run against the drifts: how late each was found, how many were for nothing."""

    delays: list[int | None]  # of each drift; None where no alarm came before the next
    false: int
    calm: int  # samples at which an alarm would be for nothing


def judge(course: Course, alarms: Sequence[int]) -> Found:
    """The first alarm after a drift finds it; more are false once the drift is over and a window has passed."""
    ends = [*(start for start, _ in course.drifts or ()), len(course.y)]
    delays: list[int | None] = []
    false, calm = sum(alarm < ends[0] for alarm in alarms), ends[0] - course.first
    for (start, over), end in zip(course.drifts or (), ends[1:], strict=True):
        inside = [alarm for alarm in alarms if start <= alarm < end]
        settled = min(end, start + over + course.window)
        delays.append(inside[0] - start if inside else None)
        false += sum(alarm >= settled for alarm in inside[1:])
        calm += end - settled
    return Found(delays, false, calm)
