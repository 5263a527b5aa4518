"""One point of a sweep, measured: stress, settle, read the state, train, read again, stop (Deep-Edge, Fig. 8, left).

Apps run all the time, as they do where models are updated. Training is a real run of an asynchronous parameter server
in the world that is profiled, cut off when its window is over; its first steps do not count.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Any

import numpy as np

from littoral.errors import RunFailed
from littoral.events import Computed
from littoral.job import MOST_EPOCHS, Job
from littoral.learning.task import Task, load_task
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.profiling.appbench import AppBench
from littoral.profiling.design import Point
from littoral.profiling.probe import Probe
from littoral.profiling.rows import AppRow, State, TrainingRow
from littoral.profiling.stress import stressed
from littoral.profiling.stressors import Stress
from littoral.rehearsal import Forgetful
from littoral.supervisor import Supervisor
from littoral.worlds.opening import open_live
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Launcher

FEWEST_STEPS = 4
PERCENTILE = 0.95
HASTE = 4.0  # times a device's quota, while its processes start
_PATIENCE = 4  # windows that a worker may take to tell of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Seconds that each part of a point takes."""

    settle_s: float = 1.0
    before_s: float = 3.0
    skip_s: float = 0.7  # of the training, for its start-up
    during_s: float = 4.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of a point."""

    training: tuple[TrainingRow, ...]
    apps: tuple[AppRow, ...]


class Bench:
    """Devices with probes and apps on them, from entering to leaving the context."""

    def __init__(
        self, job: Job, kinds: Mapping[str, str], server: str, *, ground: Ground, launcher: Launcher,
        windows: Windows = Windows(), seed: int = 0,
    ) -> None:  # fmt: skip
        self._job, self._kinds, self._server, self._windows, self._seed = job, kinds, server, windows, seed
        self._ground, self._launcher = ground, launcher
        self._task: Task = load_task(job.task, job.task_options, job.recipe)
        self._stack = ExitStack()
        self._probes: dict[str, Probe] = {}
        self._apps: list[AppBench] = []

    def __enter__(self) -> Bench:
        with self._stack as stack:
            for device in dict.fromkeys([*self._kinds, self._server]):
                self._probes[device] = stack.enter_context(Probe(self._place(device), card=self._card(device)))
            for app in self._job.continuum.apps:
                for device in (device for device in app.on if device in self._kinds):
                    bench = AppBench(app, device, self._place(device), cores=self._cores(device), seed=self._seed)
                    self._apps.append(stack.enter_context(bench))
            for bench in self._apps:
                bench.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def measure(self, point: Point) -> Measured:
        """The rows of one point; raises RunFailed if it could not be measured."""
        with self.stressed(point) as rates:
            time.sleep(self._windows.settle_s)
            start = time.monotonic()
            time.sleep(self._windows.before_s)
            window = start, time.monotonic()
            before = {device: self.state(device, window, rates, None) for device in self._probes}
            peaks = {device: self.state(device, window, rates, PERCENTILE) for device in self._kinds}
        apps = self._app_rows(point, *window, peaks, {})
        steps, window = self._train(point)
        during = {device: self.state(device, window, rates, PERCENTILE) for device in point.batches}
        apps += self._app_rows(point, *window, during, point.batches)
        rows = [self._row(point, device, steps[device], before, during) for device in point.batches]
        return Measured(tuple(rows), tuple(apps))

    @contextmanager
    def stressed(self, point: Point) -> Iterator[dict[str, float]]:
        """Stressors at work; what they were told to read and write in memory, in bytes/s, by device."""
        with ExitStack() as stack:
            running = {device: stack.enter_context(stressed(stress, self._place(device), card=self._card(device) or 0))
                       for device, stress in point.stress.items() if stress != Stress()}  # fmt: skip
            yield {device: each.memory_bytes_per_s for device, each in running.items()}
            for each in running.values():
                each.check()

    def state(
        self, device: str, window: tuple[float, float], rates: Mapping[str, float], quantile: float | None
    ) -> State:
        """A mean says how much is left, a percentile how bad it gets."""
        state = self._probes[device].summary(*window, quantile)
        return replace(state, memory_bytes_per_s=rates.get(device, 0.0))

    def _place(self, device: str) -> Any:
        return None if self._ground.lab is None else self._ground.place(device)

    def _card(self, device: str) -> int | None:
        return self._job.continuum.device(device).card

    def _cores(self, device: str) -> float:
        return 1.0 if self._ground.lab is None else self._ground.lab.quotas[device]

    # -- training ---------------------------------------------------------------------------------------------------

    def _train(self, point: Point) -> tuple[dict[str, list[Computed]], tuple[float, float]]:
        """The steps of every worker inside the window, and the window on the monotonic clock.

        Starting up under stress may take minutes on a weak device: stress and the lab's quotas come when everybody has
        made a step.
        """
        plan, seconds = self._plan(point), self._windows.during_s
        quiet = replace(self._job, faults=(), accuracy=None, evaluate_every=1e9, workers=tuple(point.batches),
                        continuum=replace(self._job.continuum, apps=()))  # fmt: skip
        steps: dict[str, list[Computed]] = {device: [] for device in point.batches}
        offset, opened = math.inf, math.inf
        supervisor = Supervisor(plan)
        with ExitStack() as stack:
            stack.callback(self._speed, point, 1.0)
            self._speed(point, HASTE)
            session = stack.enter_context(open_live(
                quiet, self._task, plan, Forgetful(), seed=self._seed, launcher=self._launcher, ground=self._ground
            ))  # fmt: skip
            for command in supervisor.begin():
                session.perform(command)
            for event in session.events():
                offset = min(offset, time.monotonic() - event.t)  # what is told soonest tells the clocks' difference
                if isinstance(event, Computed):
                    steps[event.node].append(event)
                for command in supervisor.handle(event):
                    session.perform(command)
                if math.isinf(opened) and all(steps.values()):
                    self._speed(point, 1.0)
                    stack.enter_context(self.stressed(point))
                    opened = time.monotonic() - offset + self._windows.skip_s
                told = min((seen[-1].t for seen in steps.values() if seen), default=0.0)
                if told >= opened + seconds or event.t >= opened + _PATIENCE * seconds:
                    break  # steps are told a little later than they are made
        inside = {name: [step for step in seen if opened <= step.start and step.t <= opened + seconds]
                  for name, seen in steps.items()}  # fmt: skip
        for name, seen in inside.items():
            if len(seen) < FEWEST_STEPS:
                raise RunFailed(f"device {name!r} made {len(seen)} steps of {point.batches[name]} samples only")
        return inside, (offset + opened, offset + opened + seconds)

    def _speed(self, point: Point, factor: float) -> None:
        if self._ground.lab is not None:
            for device in point.batches:
                self._ground.lab.set_speed(device, factor)

    def _plan(self, point: Point) -> Plan:
        job = replace(self._job, workers=tuple(point.batches), servers=(self._server,), strategy="parameter_server",
                      parameters={"mode": "asp"}, planner="fair", epochs=MOST_EPOCHS, faults=(),
                      limits=type(self._job.limits)(), continuum=replace(self._job.continuum, apps=()))  # fmt: skip
        plan = make_plan(replace(job, epochs=1), self._task.footprint(), self._task.recipe)
        workers = tuple(replace(worker, batch=point.batches[worker.device]) for worker in plan.workers)
        return replace(plan, workers=workers, epochs=MOST_EPOCHS)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _row(
        self, point: Point, device: str, steps: Sequence[Computed], before: Mapping[str, State],
        during: Mapping[str, State],
    ) -> TrainingRow:  # fmt: skip
        full = [step for step in steps if step.samples == point.batches[device]] or list(steps)
        gaps = [max(0.0, after.start - step.t) for step, after in pairwise(steps) if after.epoch == step.epoch]
        batches = list(point.batches.values())
        return TrainingRow(
            point=point.number, device=device, kind=self._kinds[device], task=self._job.task,
            batch=point.batches[device], workers=len(batches), batch_sum=sum(batches), batch_max=max(batches),
            before=before[device], server=before[self._server],
            compute_s=statistics.fmean((step.t - step.start) / step.samples for step in full),
            update_s=statistics.fmean(gaps or [0.0]), during=during[device], steps=len(steps),
        )  # fmt: skip

    def latencies(self, window: tuple[float, float]) -> dict[tuple[str, str], list[float]]:
        """What the apps took in a window of the monotonic clock, by app and device."""
        return {(bench.app.name, bench.device): bench.latencies(*window) for bench in self._apps}

    def _app_rows(
        self, point: Point, start: float, end: float, states: Mapping[str, State], batches: Mapping[str, int]
    ) -> list[AppRow]:
        rows = []
        for bench in (bench for bench in self._apps if bench.device in states):
            latencies = bench.latencies(start, end)
            if latencies:
                rows.append(AppRow(
                    point=point.number, device=bench.device, kind=self._kinds[bench.device], app=bench.app.name,
                    beside=batches.get(bench.device, 0), state=states[bench.device], mean_s=statistics.fmean(latencies),
                    tail_s=float(np.quantile(latencies, PERCENTILE)), periods=len(latencies),
                ))  # fmt: skip
        return rows
