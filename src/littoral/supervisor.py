"""The pure decision-maker of one run: events in, commands out. No clock, no socket, no state but what it was told.

It is the same in every world, and a journal can be replayed into it.
"""

from __future__ import annotations

import statistics
from collections import deque

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, SaveCheckpoint, Stop
from littoral.events import (
    EpochFinished,
    Evaluated,
    Event,
    NodeLost,
    NodeReturned,
    OutOfMemory,
)
from littoral.planning.plan import Plan

CONSECUTIVE = 3  # evaluations whose median must pass the target: single crossings vary by a fifth between seeds


class Supervisor:
    """Follows a run and says what to do."""

    def __init__(self, plan: Plan, *, target: float | None = None, on_failure: str = "continue") -> None:
        self._plan, self._target, self._on_failure = plan, target, on_failure
        self._servers = {server.name for server in plan.servers}
        self._shards = {worker.name: float(worker.shard) for worker in plan.workers}
        self._members = set(self._shards)
        self._recent: deque[float] = deque(maxlen=CONSECUTIVE)
        self._stopped = False

    def handle(self, event: Event) -> list[Command]:
        """What to do about ``event``."""
        if self._stopped:
            return []
        match event:
            case Evaluated(accuracy=accuracy):
                return self._judge(accuracy)
            case EpochFinished(left=left):
                return [SaveCheckpoint(), *self._stop("epochs")] if left == 0 else [SaveCheckpoint()]
            case NodeLost(node=node):
                return self._lost(node)
            case NodeReturned(node=node):
                return self._returned(node)
            case OutOfMemory(node=node, limit=limit):
                return [Rebatch(node, max(1, limit))]
        return []

    def recall(self, event: Event) -> None:
        """Take note of what happened before a run was resumed: how good the model was. Everyone is back in."""
        if isinstance(event, Evaluated):
            self._recent.append(event.accuracy)

    def _judge(self, accuracy: float) -> list[Command]:
        self._recent.append(accuracy)
        if self._target is None or len(self._recent) < CONSECUTIVE:
            return []
        if statistics.median(self._recent) >= self._target:
            return self._stop("target")
        return []

    def _lost(self, node: str) -> list[Command]:
        if self._on_failure == "stop":
            return self._stop(f"{node} was lost", failed=True)
        if node in self._servers:
            return []  # everybody waits for it: only it has the model
        self._members.discard(node)
        return [Exclude(node, self._weights())]

    def _returned(self, node: str) -> list[Command]:
        if node in self._servers:
            return [Relaunch(node, self._weights())]
        if node in self._members:
            return []
        self._members.add(node)
        return [Admit(node, self._weights())]

    def _weights(self) -> dict[str, float]:
        """Work that moves is shared as the plan shared it."""
        return {name: self._shards[name] for name in sorted(self._members)}

    def _stop(self, reason: str, failed: bool = False) -> list[Command]:
        self._stopped = True
        return [Stop(reason, failed)]
