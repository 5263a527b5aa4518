"""One point of a sweep, measured: stress, settle, read the state, train, read again, stop (Deep-Edge, Fig. 8, left).

Apps run all the time, as they do where models are updated. Training is a real run of an asynchronous parameter server
in the world that is profiled, cut off when its window is over, or later where a slow device makes few steps in it; the
first steps do not count.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType

import numpy as np

from littoral.errors import RunFailed
from littoral.events import Computed
from littoral.job import MOST_EPOCHS, Job
from littoral.learning.task import Task, load_task
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.profiling.design import Point
from littoral.profiling.post import LocalPost, Post
from littoral.profiling.ray_post import RayPost
from littoral.profiling.rows import AppRow, State, TrainingRow
from littoral.rehearsal import Forgetful
from littoral.supervisor import Supervisor
from littoral.worlds.opening import open_live
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Launcher
from littoral.worlds.ray.cluster import RayGround

FEWEST_STEPS, ENOUGH_STEPS = 4, 30  # of a worker: for a row at all, for a mean that repeats
PERCENTILE = 0.95
SHAKE = 0.3  # of an app's period: steps as long as half of one would meet all releases of a window at one moment
HASTE = 4.0  # times a device's quota, while its processes start
_LONGEST = 2.5  # windows that are waited for the slowest worker's enough
_PATIENCE = 4  # windows that a worker may take to tell of one
Window = tuple[float, float]  # of the monotonic clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Seconds that each part of a point takes."""

    settle_s: float = 1.0
    before_s: float = 3.0
    skip_s: float = 0.7  # of the training, for its start-up
    during_s: float = 4.0

    @classmethod
    def of(cls, during_s: float) -> Windows:
        """With so many seconds of training, and three quarters of them before."""
        return cls(before_s=max(1.5, 0.75 * during_s), during_s=during_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of a point."""

    training: tuple[TrainingRow, ...]
    apps: tuple[AppRow, ...]


class Bench:
    """Devices with probes and apps on them, from entering to leaving the context."""

    def __init__(
        self, job: Job, kinds: Mapping[str, str], server: str, *, ground: Ground, launcher: Launcher,
        windows: Windows = Windows(), seed: int = 0, shake: float = SHAKE,
    ) -> None:  # fmt: skip
        self._job, self._kinds, self._server, self._windows, self._seed = job, kinds, server, windows, seed
        self._ground, self._launcher, self._shake = ground, launcher, shake
        self._task: Task = load_task(job.task, job.task_options, job.recipe)
        self._deadlines = {app.name: app.deadline_s for app in job.continuum.apps}
        self._stack = ExitStack()
        self._posts = {device: self._post(device) for device in dict.fromkeys([*kinds, server])}

    def __enter__(self) -> Bench:
        with self._stack as stack:
            for post in self._posts.values():
                stack.enter_context(post)
            for post in self._posts.values():
                post.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def measure(self, point: Point) -> Measured:
        """The rows of one point; raises RunFailed if it could not be measured."""
        with self.stressed(point):
            time.sleep(self._windows.settle_s)
            start = time.monotonic()
            time.sleep(self._windows.before_s)
            window = start, time.monotonic()
            before = {device: self.state(device, window, None) for device in self._posts}
            apps = self._app_rows(point, window, before, {})
            steps, window = self._train(point)
        during = {device: self.state(device, window, PERCENTILE) for device in point.batches}
        apps += self._app_rows(point, window, {device: before[device] for device in point.batches}, point.batches)
        rows = [self._row(point, device, steps[device], before, during) for device in point.batches]
        return Measured(tuple(rows), tuple(apps))

    @contextmanager
    def stressed(self, point: Point) -> Iterator[None]:
        """Stressors at work; raises RunFailed if one of them ends too early. They start with haste."""
        with ExitStack() as stack:
            for device in point.stress:
                stack.callback(self._posts[device].relax, check=False)
            with self._hastened(point.stress), ThreadPoolExecutor(len(point.stress)) as pool:
                posts = [self._posts[device] for device in point.stress]
                list(pool.map(lambda post, stress: post.stress(stress), posts, point.stress.values()))
            yield
            for device in point.stress:
                self._posts[device].relax(check=True)

    def state(self, device: str, window: Window, quantile: float | None) -> State:
        """A mean says how much is left, a percentile how bad it gets."""
        return self._posts[device].state(*window, quantile)

    def latencies(self, window: Window) -> dict[tuple[str, str], list[float]]:
        """What the apps took in a window of the monotonic clock, by app and device."""
        return {(app, device): seen for device, post in self._posts.items()
                for app, seen in post.latencies(*window).items()}  # fmt: skip

    def _post(self, device: str) -> Post:
        described = self._job.continuum.device(device)
        apps = [app for app in self._job.continuum.apps if device in app.on and device in self._kinds]
        if isinstance(self._ground, RayGround):
            return RayPost(self._ground.cluster, described, apps, self._seed, self._shake)
        lab = self._ground.lab
        place, cores = (None, 1.0) if lab is None else (self._ground.place(device), lab.quotas[device])
        return LocalPost(described, apps, place, cores, self._seed, self._shake)

    # -- training ---------------------------------------------------------------------------------------------------

    def _train(self, point: Point) -> tuple[dict[str, list[Computed]], Window]:
        """The steps of every worker inside the window, and the window on the monotonic clock.

        Starting up under stress may take minutes on a weak device: quotas are raised until everybody has made a step.
        """
        plan, seconds = self._plan(point), self._windows.during_s
        quiet = replace(self._job, faults=(), accuracy=None, evaluate_every=1e9, workers=tuple(point.batches),
                        continuum=replace(self._job.continuum, apps=()))  # fmt: skip
        steps: dict[str, list[Computed]] = {device: [] for device in point.batches}
        offset, opened = math.inf, math.inf
        supervisor = Supervisor(plan)
        with ExitStack() as stack:
            starting = stack.enter_context(ExitStack())
            starting.enter_context(self._hastened(point.batches))
            session = stack.enter_context(open_live(
                quiet, self._task, plan, Forgetful(), seed=self._seed, launcher=self._launcher, ground=self._ground,
                judged=False, world="ray" if isinstance(self._ground, RayGround) else "processes",
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
                    starting.close()
                    opened = time.monotonic() - offset + self._windows.skip_s
                told = min((seen[-1].t for seen in steps.values() if seen), default=0.0)  # a little after it was made
                if told >= opened + seconds * stretch(steps, opened) or event.t >= opened + _PATIENCE * seconds:
                    break
        end = max(told, opened + seconds)
        inside = {name: [step for step in seen if opened <= step.start and step.t <= end]
                  for name, seen in steps.items()}  # fmt: skip
        for name, seen in inside.items():
            if len(seen) < FEWEST_STEPS:
                raise RunFailed(f"device {name!r} made {len(seen)} steps of {point.batches[name]} samples only")
        return inside, (offset + opened, offset + end)

    @contextmanager
    def _hastened(self, devices: Collection[str]) -> Iterator[None]:
        """With larger quotas, in the lab."""
        if (lab := self._ground.lab) is None:
            yield
            return
        try:
            for device in devices:
                lab.set_speed(device, HASTE)
            yield
        finally:
            for device in devices:
                lab.set_speed(device, 1.0)

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
            point=point.number, device=device, kind=self._kinds[device], task=self._job.workload,
            batch=point.batches[device], workers=len(batches), batch_sum=sum(batches), batch_max=max(batches),
            before=before[device], server=before[self._server],
            compute_s=statistics.fmean((step.t - step.start) / step.samples for step in full),
            update_s=statistics.fmean(gaps or [0.0]), during=during[device], steps=len(steps),
        )  # fmt: skip

    def _app_rows(
        self, point: Point, window: Window, states: Mapping[str, State], batches: Mapping[str, int]
    ) -> list[AppRow]:
        return [
            AppRow(
                point=point.number, device=device, kind=self._kinds[device], app=app,
                beside=batches.get(device, 0), state=states[device], mean_s=statistics.fmean(latencies),
                tail_s=float(np.quantile(latencies, PERCENTILE)), deadline_s=self._deadlines[app],
                periods=len(latencies),
            )
            for (app, device), latencies in self.latencies(window).items()
            if device in states and latencies
        ]  # fmt: skip


def stretch(steps: Mapping[str, Sequence[Computed]], opened: float) -> float:
    """Windows to train for: one, or more while somebody has made too few steps since it opened to tell a mean."""
    fewest = min(len(seen) - bisect_left(seen, opened, key=lambda step: step.start) for seen in steps.values())
    return 1.0 if fewest >= ENOUGH_STEPS else _LONGEST
