"""The pure decision-maker of one run: events in, commands out. No clock, no socket, no state but what it was told.

It is the same in every world, and a journal can be replayed into it. What it does about a loss is the job's
``on_failure``:

- ``elastic``: the others keep going and share the lost worker's samples; one that returns joins again.
- ``deepedge``: everybody is killed and begins again from the last checkpoint, with all who are there; each loss is a
  strike, and a worker with three of them is left out, in this run and in later ones.
- ``stop``: the run ends.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, Restart, SaveCheckpoint, Stop
from littoral.events import (
    EpochFinished,
    Evaluated,
    Event,
    NodeLost,
    NodeReturned,
    OutOfMemory,
    Resumed,
)
from littoral.planning.plan import Plan
from littoral.strikes import Strikes
from littoral.watching.accuracy import AccuracyMonitor
from littoral.watching.foresight import account

CONSECUTIVE = 3  # evaluations whose median must pass the target: single crossings vary by a fifth between seeds
NOBODY = "no worker is left: all of them have three strikes"


class Supervisor:
    """Follows a run and says what to do. ``strikes`` changes by ``deepedge`` losses and good ends only."""

    def __init__(
        self,
        plan: Plan,
        *,
        target: float | None = None,
        plateau: float | None = None,
        on_failure: str = "elastic",
        strikes: Strikes | None = None,
    ) -> None:
        self.strikes = strikes or Strikes()
        self._plan, self._target, self._on_failure = plan, target, on_failure
        self._servers = {server.name for server in plan.servers}
        self._shards = {worker.name: float(worker.shard) for worker in plan.workers}
        self._members = {*self._shards, *self._servers}
        self._recent: deque[float] = deque(maxlen=CONSECUTIVE)
        self._monitor = _monitor(plan.epochs, target, plateau)
        self._going_back = False  # to a checkpoint: until then, what is told of the model is void
        self._done = False  # before it was resumed
        self._stopped = False
        self._reason = ""

    def begin(self) -> list[Command]:
        """What to do before work starts, in a new run or a resumed one: leave out whoever must sit out.

        A run may be killed between its last checkpoint and its end; resumed, it only ends.
        """
        if self._done:
            return self._stop("epochs")
        if self._on_failure != "deepedge":
            return []
        barred = [name for name in self._shards if self.strikes.excluded(name)]
        self._members -= set(barred)
        if len(barred) == len(self._shards):
            return self._stop(NOBODY, failed=True)
        return [Exclude(name, self._weights()) for name in barred]

    def handle(self, event: Event) -> list[Command]:
        """What to do about ``event``."""
        if self._stopped:
            return []
        match event:
            case Resumed():
                self._going_back = False
            case Evaluated() | EpochFinished() if self._going_back:
                return []
            case Evaluated():
                return self._judge(event)
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
        """Take note of what happened before a run was resumed: how good the model was, whether all is done.

        Everyone is back in.
        """
        match event:
            case Evaluated():
                self._note(event)
            case EpochFinished(left=0):
                self._done = True
            case Resumed() if event.since < event.t:  # from a checkpoint, within the run
                self._done = False

    def forecasts(self) -> dict[str, Any] | None:
        """When the goal was foretold to be reached, and how far off that was; None without a goal."""
        return None if self._monitor is None else account(self._monitor, self._reason)

    def _judge(self, event: Evaluated) -> list[Command]:
        self._note(event)
        if self._monitor is not None and self._monitor.should_stop() == "plateau":
            return [SaveCheckpoint(), *self._stop("plateau")]  # the model that is as good as it gets
        if self._target is None or len(self._recent) < CONSECUTIVE:
            return []
        if statistics.median(self._recent) >= self._target:
            return [SaveCheckpoint(), *self._stop("target")]
        return []

    def _note(self, event: Evaluated) -> None:
        self._recent.append(event.accuracy)
        epochs = event.samples / sum(self._shards.values())
        # An untrained model is no point of a learning curve, nor is a metric that is no share.
        if self._monitor is not None and epochs > 0 and 0 <= event.accuracy <= 1:
            self._monitor.forget_from(epochs)  # of a model that a checkpoint has undone
            self._monitor.add(epochs, event.accuracy)

    # -- who is in ----------------------------------------------------------------------------------------------

    def _lost(self, node: str) -> list[Command]:
        if node not in self._members:
            return []  # a store, which its readers wait for, or a worker that is out already
        self._members.remove(node)
        if self._on_failure == "stop":
            return self._stop(f"{node} was lost", failed=True)
        if self._on_failure == "deepedge":
            return self._strike(node)
        if node in self._servers:
            return []  # everybody waits for it: only it has the model
        return [Exclude(node, self._weights())]

    def _strike(self, node: str) -> list[Command]:
        self.strikes = self.strikes.struck(node)
        if all(self.strikes.excluded(name) for name in self._shards):
            return self._stop(NOBODY, failed=True)
        return [self._go_back(Restart(self._weights()))]

    def _returned(self, node: str) -> list[Command]:
        if node in self._members or not self._may_return(node):
            return []
        self._members.add(node)
        if node not in self._servers:
            return [Admit(node, self._weights())]
        again = self._on_failure == "deepedge"
        return [self._go_back(Restart(self._weights()) if again else Relaunch(node, self._weights()))]

    def _go_back(self, command: Command) -> Command:
        self._going_back = True
        return command

    def _may_return(self, node: str) -> bool:
        barred = self._on_failure == "deepedge" and self.strikes.excluded(node)
        return node in self._servers or (node in self._shards and not barred)

    def _weights(self) -> dict[str, float]:
        """Work that moves is shared as the plan shared it."""
        return {name: self._shards[name] for name in sorted(self._members & self._shards.keys())}

    def _stop(self, reason: str, failed: bool = False) -> list[Command]:
        self._stopped, self._reason = True, reason
        if self._on_failure == "deepedge" and not failed:
            self.strikes = self.strikes.finished_run(self._members)
        return [Stop(reason, failed)]


def _monitor(epochs: int, target: float | None, plateau: float | None) -> AccuracyMonitor | None:
    """Of the plateau, where it ends the run; of the target, to foretell it."""
    if plateau is not None:
        return AccuracyMonitor(most_epochs=epochs, gain=plateau)
    return None if target is None else AccuracyMonitor(most_epochs=epochs, target=target)
