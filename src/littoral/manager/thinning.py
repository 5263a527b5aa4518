"""What a run does again and again is told now and then: a run of short epochs would bury every other event.

The journal and the feed of the run have all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

STEPS = ("run.epoch", "run.evaluated", "run.checkpointed")
LEAST_S = 1.0  # between two of a kind
Told = tuple[str, dict[str, Any]]  # an event's kind, and its data


class Thinner:
    """Of each kind of step, one passes in ``LEAST_S`` seconds; of those between, the newest passes when it may.

    It says how many were ``left_out`` before it. Whatever is no step passes at once.

    >>> thinner = Thinner()
    >>> thinner.take([("run.epoch", {"epoch": 1}), ("run.epoch", {"epoch": 2}), ("run.epoch", {"epoch": 3})], now=0.0)
    [('run.epoch', {'epoch': 1})]
    >>> thinner.take([], now=1.0)
    [('run.epoch', {'epoch': 3, 'left_out': 1})]
    """

    def __init__(self) -> None:
        self._passed: dict[str, float] = {}  # when the last of a kind did
        self._held: dict[str, dict[str, Any]] = {}
        self._left_out: Counter[str] = Counter()

    def take(self, told: Iterable[Told], now: float, *, last: bool = False) -> list[Told]:
        """What may pass now; all that is held, if nothing more will come."""
        passing: list[Told] = []
        for kind, data in told:
            if kind in STEPS and not self._due(kind, now):
                self._hold(kind, data)
            else:
                passing.append(self._pass(kind, data, now))
        due = [kind for kind in self._held if last or self._due(kind, now)]
        return passing + [self._pass(kind, self._held[kind], now) for kind in due]

    def _due(self, kind: str, now: float) -> bool:
        return now - self._passed.get(kind, float("-inf")) >= LEAST_S

    def _hold(self, kind: str, data: dict[str, Any]) -> None:
        self._left_out[kind] += self._held.pop(kind, None) is not None
        self._held[kind] = data

    def _pass(self, kind: str, data: dict[str, Any], now: float) -> Told:
        self._passed[kind] = now
        older = self._held.pop(kind, data) is not data
        left_out = self._left_out.pop(kind, 0) + older
        return kind, {**data, "left_out": left_out} if left_out else data
