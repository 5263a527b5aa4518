"""A whole sweep: points until the budget is spent, every one kept as soon as it is measured, resumed where it ended."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from littoral.errors import InputError, RunFailed
from littoral.job import Job
from littoral.learning.task import load_task
from littoral.profiling.bench import Bench, Measured
from littoral.profiling.design import MOST_MEMORY, Point, Space, least_known, points
from littoral.profiling.devices import machine_memory
from littoral.profiling.profile import Profile, load, save
from littoral.units import show_bytes

EVENLY = 24  # points that fill the space before doubts choose
CANDIDATES = 12  # among which they choose
AGAIN = 4  # then every so many points is an earlier one once more, which tells what no model can know
ATTEMPTS = 2
LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)  # times the job's batch: what planners choose from

Tell = Callable[[str], None]


def _silent(text: str) -> None:
    """Tell nobody."""


def space_of(job: Job, server: str, *, everybody: bool = False, disks: bool = False) -> Space:
    """What a sweep of a job varies; with ``everybody`` only what most plans do: all train, in the larger batches."""
    task = load_task(job.task, job.task_options, job.recipe)
    footprint = task.footprint()
    workers = tuple(name for name in job.workers or job.continuum.device_names if name != server)
    if not workers:
        raise InputError(
            "no device is left to train", remedy="describe at least one besides the server's", key="workers"
        )
    least = min(job.continuum.device(name).largest_batch(footprint) for name in workers)
    sizes = dict.fromkeys(max(1, int(factor * (job.batch or task.recipe.batch))) for factor in LADDER)
    ladder = tuple(size for size in sizes if size <= min(least, footprint.samples // len(workers)))
    larger = ladder[len(ladder) // 2 :] if everybody else ladder
    return Space(workers=workers, server=server, batches=larger or (1,), everybody=everybody,
                 cards=tuple(name for name in workers if job.continuum.device(name).card is not None),
                 disks=workers if disks else ())  # fmt: skip


def check_room(space: Space, job: Job, *, lab: bool) -> None:
    """Refuse stress that this machine could not bear."""
    if not lab and len(space.workers) > 1:
        found = f"without a lab, {' and '.join(space.workers)} are all this machine, and their stress would add up"
        raise InputError(found, remedy="profile them with --lab, or a job with one worker", key="workers")
    held = sum(MOST_MEMORY * job.continuum.device(name).memory_bytes for name in space.workers) if lab else 0.0
    free = machine_memory()[1]
    if held > free:
        found = f"stress would hold up to {show_bytes(held)} of memory, and {show_bytes(free)} are free"
        raise InputError(found, remedy="lower 'memory' of the continuum's devices")


def server_of(job: Job) -> str:
    """Where the server is while profiling: where the job says, or on the last device."""
    return job.servers[0] if job.servers else job.continuum.device_names[-1]


def begun(folder: Path, kinds: dict[str, str], task: str) -> Profile:
    """What a sweep that was interrupted has kept; rows of a point that was not kept whole are dropped."""
    if not (folder / "training.csv").exists():
        return Profile()
    kept = load(folder)
    others = {(row.kind, row.task) for row in kept.training} - {(kind, task) for kind in kinds.values()}
    if others:
        kind, other = sorted(others)[0]
        raise InputError(f"a profile of {other} on {kind}", file=folder, remedy="give another folder for this sweep")
    whole = {row.point for row in kept.training}
    return replace(kept, apps=tuple(row for row in kept.apps if row.point in whole))


class Choice:
    """Which point is next: evenly at first, then the one of a few that the measured ones tell least about.

    With several ``visits`` a sweep goes to and fro: its last points come first when they are measured again. A machine
    that grows slower by the minute then meets all of them at the same time on the mean.
    """

    def __init__(self, space: Space, profile: Profile, seed: int, visits: int = 1) -> None:
        times: dict[int, dict[str, list[float]]] = {}
        for row in profile.training:
            times.setdefault(row.point, {}).setdefault(row.device, []).append(row.compute_s)
        early = islice(points(space, seed), max(times, default=0))
        self._known = {at.number: (at, _means(times[at.number])) for at in early if at.number in times}
        self._made = Counter({number: max(map(len, seen.values())) for number, seen in times.items()})
        self._visits = visits
        self._due = deque(number for turn in range(1, visits) for number in self._owing(turn))
        self._stream = (point for point in points(space, seed) if point.number not in times)
        self._pool: list[Point] = []
        self._seed = seed

    def next(self, spent: float) -> Point:
        """The point to measure, when so much of the budget is spent: new ones for a visit's share, then all again."""
        if not self._due:
            self._due.extend(self._owing(min(int(self._visits * spent), self._visits - 1)))
        point = self._known[self._due.popleft()][0] if self._due else self._new()
        self._made[point.number] += 1
        return point

    def _owing(self, turn: int) -> list[int]:
        """The points that were not measured more than ``turn`` times, in the order of that turn."""
        owing = [number for number in self._known if self._made[number] <= turn] if turn else []
        return owing[::-1] if turn % 2 else owing

    def _new(self) -> Point:
        if len(self._known) < EVENLY:
            return next(self._stream)
        asked = self._made.total() + 1
        if self._visits == 1 and asked % AGAIN == 1:
            return list(self._known.values())[(asked // AGAIN * 7) % EVENLY][0]
        self._pool += islice(self._stream, CANDIDATES - len(self._pool))
        point = least_known(self._pool, list(self._known.values()), self._seed)
        self._pool.remove(point)
        return point

    def learn(self, point: Point, measured: Measured) -> None:
        """What came of it."""
        times = {row.device: row.compute_s for row in measured.training}
        self._known.setdefault(point.number, (point, times))


def _means(times: dict[str, list[float]]) -> dict[str, float]:
    return {device: statistics.fmean(seen) for device, seen in times.items()}


def sweep(
    bench: Bench, space: Space, folder: Path, profile: Profile, *, budget_s: float, visits: int = 1, seed: int = 0,
    tell: Tell = _silent,
) -> Profile:  # fmt: skip
    """Measure until the budget is spent; a point that fails twice is left out, and told."""
    end, choice = time.monotonic() + budget_s, Choice(space, profile, seed, visits)
    while (began := time.monotonic()) < end:
        point = choice.next(1 - (end - began) / budget_s)
        measured = _attempt(bench, point, tell)
        if measured is None:
            continue
        choice.learn(point, measured)
        profile = replace(
            profile, training=(*profile.training, *measured.training), apps=(*profile.apps, *measured.apps), choices={}
        )
        save(profile, folder)
        now = time.monotonic()
        tell(
            f"point {point.number}: {len(measured.training)} training, {now - began:.1f} s; "
            f"{len(profile.training)} rows, {max(0.0, end - now) / 60:.1f} min left"
        )
    return profile


def _attempt(bench: Bench, point: Point, tell: Tell) -> Measured | None:
    for attempt in range(ATTEMPTS):
        try:
            return bench.measure(point)
        except RunFailed as error:
            tell(f"point {point.number} failed ({error}); {'left out' if attempt else 'once more'}")
    return None
