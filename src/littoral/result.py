"""What a run achieved, read from its events one at a time; only what no checkpoint holds yet is remembered singly."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass
from typing import Any

from littoral.continuum.routes import Route, Routes
from littoral.events import (
    AppChecked,
    Checkpointed,
    Computed,
    EpochFinished,
    Evaluated,
    Event,
    FaultInjected,
    Fetched,
    Resumed,
    RunFinished,
    RunStarted,
    Sent,
    Used,
)
from littoral.job import Job
from littoral.learning.task import Footprint
from littoral.planning.plan import Plan
from littoral.supervisor import CONSECUTIVE

FINISHED = ("target", "plateau", "epochs")  # why a run ends that did its work
SOLO_BATCH = 1024  # what a device may use when its best solo speed is asked for


@dataclass
class WorkerTally:
    """One worker's account."""

    shard: int
    batch: int
    samples: int = 0
    busy_s: float = 0.0
    send_s: float = 0.0
    bytes_sent: int = 0


@dataclass
class Tally:
    """Counts as events pass; ``result`` gives the account at any time."""

    job: Job
    plan: Plan
    footprint: Footprint
    seed: int
    reference_samples: float | None = None  # what one device needs to the target; None: not known
    run: str = ""
    world: str = ""
    now: float = 0.0
    samples: int = 0
    accuracy: float | None = None
    reached_s: float | None = None
    bytes_sent: int = 0
    wan_bytes: int = 0
    transfer_usd: float = 0.0
    checked: int = 0
    violated: int = 0
    injected: int = 0
    reason: str = ""
    epochs_finished: int = 0
    epochs_finished_s: float = 0.0

    def __post_init__(self) -> None:
        self.workers = {w.name: WorkerTally(w.shard, w.batch) for w in self.plan.workers}
        self._recent: deque[float] = deque(maxlen=CONSECUTIVE)
        self._unsaved: deque[tuple[int, Used]] = deque()  # what a rollback would take back, each after its total
        self._routes = Routes(self.job.continuum)
        self._device_of = self.plan.device_of
        self._update = {
            RunStarted: self._started, Computed: self._computed, Sent: self._sent, Used: self._used,
            Evaluated: self._evaluated, AppChecked: self._app, FaultInjected: self._fault,
            RunFinished: self._finished, Resumed: self._resumed, EpochFinished: self._epoch, Fetched: self._fetched,
            Checkpointed: self._saved,
        }  # fmt: skip

    def update(self, event: Event) -> None:
        """Count one event."""
        self.now = event.t
        update: Any = self._update.get(type(event))
        if update is not None:
            update(event)

    def _started(self, event: RunStarted) -> None:
        self.run, self.world = event.run, event.world

    def _saved(self, event: Checkpointed) -> None:
        while self._unsaved and self._unsaved[0][0] <= event.samples:
            self._unsaved.popleft()

    def _resumed(self, event: Resumed) -> None:
        while self._unsaved and self._unsaved[-1][0] > event.samples:
            _, used = self._unsaved.pop()
            self.workers[used.node].samples -= used.samples
        self.samples = event.samples
        self.epochs_finished, self.epochs_finished_s = event.samples // self.plan.samples, event.since

    def _computed(self, event: Computed) -> None:
        self.workers[event.node].busy_s += event.t - event.start

    def _sent(self, event: Sent) -> None:
        self.bytes_sent += event.size
        self._charge(self._routes.between(self._device_of[event.source], self._device_of[event.target]), event.size)
        worker = self.workers.get(event.source)
        if worker is not None:
            worker.send_s += event.t - event.start
            worker.bytes_sent += event.size

    def _fetched(self, event: Fetched) -> None:
        """Data from a store is no message, but it crosses links that have a price."""
        store = self.plan.worker(event.node).store
        if store is not None:
            self._charge(self._routes.between(store, self._device_of[event.node]), event.size)

    def _charge(self, route: Route, size: int) -> None:
        self.transfer_usd += size * route.price_usd_per_byte
        self.wan_bytes += size if route.wide_area else 0

    def _used(self, event: Used) -> None:
        self.samples += event.samples
        self._unsaved.append((self.samples, event))
        self.workers[event.node].samples += event.samples

    def _evaluated(self, event: Evaluated) -> None:
        self.accuracy = event.accuracy
        self._recent.append(event.accuracy)
        target = self.job.accuracy
        if target is not None and self.reached_s is None and len(self._recent) == CONSECUTIVE:
            if statistics.median(self._recent) >= target:
                self.reached_s = event.t

    def _epoch(self, event: EpochFinished) -> None:
        self.epochs_finished += 1
        self.epochs_finished_s = event.t

    def _app(self, event: AppChecked) -> None:
        self.checked += event.checked
        self.violated += event.violated

    def _fault(self, event: FaultInjected) -> None:
        self.injected += 1

    def _finished(self, event: RunFinished) -> None:
        self.reason = event.reason

    # -- the account --------------------------------------------------------------------------------------------

    def pooled_samples_per_s(self) -> float:
        """What all devices together, planned or idle, could do at best: each alone, communication free."""
        total = 0.0
        for device in self.job.continuum.devices:
            batch = min(SOLO_BATCH, device.largest_batch(self.footprint))
            if batch:
                total += device.best_samples_per_s(self.footprint, batch)
        return total

    def result(self) -> dict[str, Any]:
        """The result as DESIGN promises it."""
        time_s, pooled = self.now, self.pooled_samples_per_s()
        as_described = self.world != "processes"  # where devices have the speeds that efficiencies compare with
        prices = [self.job.continuum.device(d).price_usd_per_s for d in set(self._device_of.values())]
        finished = self.reason in FINISHED
        goodput = None
        if self.reached_s and self.reference_samples and as_described:
            goodput = self.reference_samples / pooled / self.reached_s
        return {
            "run": self.run,
            "world": self.world,
            "strategy": self.plan.strategy,
            "planner": self.plan.planner,
            "parameters": self.plan.parameters,
            "seed": self.seed,
            "reason": self.reason,
            "time_s": time_s,
            "epochs": self.samples / self.plan.samples,
            "samples": self.samples,
            "accuracy": self.accuracy,
            "target_accuracy": self.job.accuracy,
            "time_to_target_s": self.reached_s,
            "throughput_efficiency": self.samples / time_s / pooled if time_s and as_described else None,
            "goodput_efficiency": goodput,
            "bytes_sent": self.bytes_sent,
            "wan_bytes": self.wan_bytes,
            "cost_usd": time_s * sum(prices) + self.transfer_usd,
            "slo": {"checked": self.checked, "violated": self.violated},
            "faults": {"injected": self.injected, "survived": self.injected if finished else 0},
            "predicted": self._predicted(),
            "workers": {name: self._worker(tally) for name, tally in self.workers.items()},
        }

    def _predicted(self) -> dict[str, Any]:
        """The plan's prediction, and how it did on the epochs that were finished (a target may end a run early)."""
        predicted = self.plan.predicted
        names = ("time_s", "epoch_s", "bytes_sent", "wan_bytes", "cost_usd")
        account: dict[str, Any] = {name: getattr(predicted, name) for name in names}
        if not self.epochs_finished or self.world == "processes":  # where devices are not as the plan was told
            return account | {"finished": None, "error": None}
        foretold = predicted.time_s - (self.plan.epochs - self.epochs_finished) * predicted.epoch_s
        took = self.epochs_finished_s
        finished = {"epochs": self.epochs_finished, "predicted_s": foretold, "measured_s": took}
        return account | {"finished": finished, "error": foretold / took - 1}

    def _worker(self, tally: WorkerTally) -> dict[str, Any]:
        return {
            "shard": tally.shard,
            "batch": tally.batch,
            "samples": tally.samples,
            "busy_s": tally.busy_s,
            "wait_s": max(0.0, self.now - tally.busy_s),
            "send_s": tally.send_s,
            "bytes_sent": tally.bytes_sent,
        }
