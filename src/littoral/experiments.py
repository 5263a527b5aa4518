"""Deep-Edge's random experiments on a profile of one's own: how much does each solver gain, and who breaks a rule?

One worker of the quickest kind and three of the next one, as in the paper. Every worker runs the profiled app and is in
a state that was measured under random stress, without training; none misses its deadline before training begins. All
schemes are judged by the same learned functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

import numpy as np

from littoral.errors import Infeasible, InputError
from littoral.planning import deepedge
from littoral.planning.exact import solve_exact
from littoral.planning.instance import Array, Floats, Instance, Ints, Placement, Scheme, violations
from littoral.planning.profiled import ProfiledPerformance
from littoral.planning.search import search
from littoral.planning.simple import solve_fair
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.profile import Profile
from littoral.profiling.rows import State, TrainingRow

SAMPLES, WORKERS, COUNT = 3855, 4, 120  # the paper's


def fair(instance: Instance) -> Scheme:
    """Equal shards, and the largest batch that everybody has room for."""
    room = instance.performance.largest_batch(np.arange(len(instance.names)))
    return solve_fair(instance, max(1, min(instance.batch_most, int(room.min()))))


def plain(instance: Instance, batch: int = 0) -> Scheme:
    """Equal shards and the job's batch, as the planner ``fair`` has them: sweeps have that in the middle of theirs."""
    return solve_fair(instance, batch or int(instance.rungs[len(instance.rungs) // 2]))


Solve = Callable[[Instance], Scheme]


def solvers(batch: int = 0) -> Mapping[str, Solve]:
    """All that are compared; ``batch`` is the job's, if it is not in the middle of what was measured."""
    return {
        "fair": fair,
        "fair, job's batch": partial(plain, batch=batch),
        "deepedge-paper": deepedge.solve_paper,
        "deepedge": deepedge.solve,
        "search": search,
        "exact": solve_exact,
    }


SOLVERS = solvers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One experiment: epoch seconds by solver (infinite where it finds nothing), and who breaks a rule."""

    kinds: tuple[str, ...]
    epoch_s: dict[str, float]
    broken: dict[str, bool]
    idle: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all experiments have in common."""

    profile: Profile
    kinds: tuple[str, ...]
    task: str
    app: str
    deadline_s: float
    batch: int = 0  # the job's; 0 for the middle of those measured
    seed: int = 0
    known: dict[str, Estimators] = field(default_factory=dict)

    def estimators(self, kind: str) -> Estimators:
        """Of a kind, fitted once."""
        if kind not in self.known:
            self.known[kind] = estimators(self.profile, kind, self.task)
        return self.known[kind]

    def rows(self) -> list[TrainingRow]:
        """What was measured of the task on these kinds; a profile may have others, with servers of their own."""
        return [row for kind in dict.fromkeys(self.kinds) for row in self.profile.training_of(kind, self.task)]


def setting_of(
    profile: Profile, *, kinds: Sequence[str] = (), deadline_s: float | None = None, batch: int = 0, seed: int = 0
) -> Setting:
    """A setting from what a profile has: the first task that was measured on all kinds, and the first app.

    Without ``kinds``, the quickest one of that task and three of the next; the deadline is the measured app's, unless
    another one is given.
    """
    if not profile.apps:
        raise InputError("the profile has no app", remedy="profile a job with an app: its deadline is what binds")
    task = _task_of(profile, kinds)
    pace: dict[str, float] = {
        kind: float(np.mean([row.compute_s for row in profile.training_of(kind, task)]))
        for kind, one in profile.pairs()
        if one == task
    }
    quick = sorted(pace, key=lambda kind: pace[kind])
    chosen = tuple(kinds) or (quick[0], *[quick[min(1, len(quick) - 1)]] * (WORKERS - 1))
    first = next((row for row in profile.apps if row.kind in chosen), profile.apps[0])
    deadline = first.deadline_s if deadline_s is None else deadline_s
    return Setting(
        profile=profile, kinds=chosen, task=task, app=first.app, deadline_s=deadline, batch=batch, seed=seed
    )  # fmt: skip


def _task_of(profile: Profile, kinds: Sequence[str]) -> str:
    measured = sorted({kind for kind, _ in profile.pairs()})
    for kind in kinds:
        if kind not in measured:
            raise InputError(f"nothing was measured on {kind}", remedy=f"choose from: {', '.join(measured)}")
    pairs = set(profile.pairs())
    for task in dict.fromkeys(row.task for row in profile.training):
        if all((kind, task) in pairs for kind in kinds):
            return task
    found = f"no task was measured on all of {', '.join(dict.fromkeys(kinds))}"
    raise InputError(found, remedy="choose kinds of one sweep, or profile the same task on all of them")


def experiments(setting: Setting, count: int = COUNT, *, jobs: int = 1) -> Iterator[Outcome]:
    """The outcomes, one after the other, by so many processes."""
    if jobs == 1:
        yield from map(partial(experiment, setting), range(count))
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_share, initargs=(setting,)) as pool:
        yield from pool.map(_shared_experiment, range(count))


_setting: list[Setting] = []  # of this process: models are fitted once in each


def _share(setting: Setting) -> None:
    _setting.append(setting)


def _shared_experiment(number: int) -> Outcome:
    return experiment(_setting[0], number)


def experiment(setting: Setting, number: int) -> Outcome:
    """All solvers on one random cluster."""
    instance = instance_of(setting, np.random.default_rng((setting.seed, number)))
    outcome = Outcome(kinds=setting.kinds, epoch_s={}, broken={}, idle={})
    for name, solve in solvers(setting.batch).items():
        try:
            scheme = solve(instance)
        except Infeasible:
            outcome.epoch_s[name], outcome.broken[name], outcome.idle[name] = np.inf, False, len(setting.kinds)
            continue
        outcome.epoch_s[name] = scheme.epoch_s
        outcome.broken[name] = bool(violations(instance, scheme))
        outcome.idle[name] = len(setting.kinds) - len(scheme.workers)
    return outcome


def instance_of(setting: Setting, dice: np.random.Generator) -> Instance:
    """A random cluster, as it is before training."""
    states = [_calm(setting, kind, dice) for kind in setting.kinds]
    rows = setting.rows()
    return cluster(setting, states, rows[int(dice.integers(len(rows)))].server)


def cluster(setting: Setting, states: Sequence[State], server: State) -> Instance:
    """Workers and a server in these states."""
    kinds = setting.kinds
    known = {kind: setting.estimators(kind) for kind in dict.fromkeys(kinds)}
    model = ProfiledPerformance(known, kinds, states, [server], [(setting.app, frozenset(range(len(kinds))))])
    ladder = tuple(sorted({row.batch for row in setting.rows()}))
    return Instance(
        names=tuple(f"{kind}-{i + 1}" for i, kind in enumerate(kinds)), samples=SAMPLES, performance=_Remembered(model),
        ladder=ladder, batch_least=ladder[0], batch_most=ladder[-1], apps=(setting.app,),
        deadlines=np.full((len(kinds), 1), setting.deadline_s),
    )  # fmt: skip


def _calm(setting: Setting, kind: str, dice: np.random.Generator) -> State:
    """A measured state in which the app keeps its deadline."""
    rows = setting.profile.training_of(kind, setting.task)
    states: list[State] = [rows[i].before for i in dice.permutation(len(rows))]
    longest = setting.estimators(kind).longest_time(setting.app, states)
    for state, longest_s in zip(states, longest, strict=True):
        if longest_s <= setting.deadline_s:
            return state
    found = f"no measured state of {kind} lets {setting.app} keep {setting.deadline_s:g} s"
    raise InputError(found, remedy=f"give a longer deadline: it takes at least {longest.min():.3g} s")


class _Remembered:
    """Answers that were given before are given again: solvers ask about the same batches many times."""

    def __init__(self, model: ProfiledPerformance) -> None:
        self._model = model
        self._known: dict[tuple[object, ...], Array] = {}

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        key = "compute", nodes.tobytes(), np.asarray(batches, float).tobytes()
        return self._answer(key, lambda: self._model.compute_seconds(nodes, batches))

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        key = "update", nodes.tobytes(), np.asarray(batches, float).tobytes(), np.shape(batches), servers
        return self._answer(key, lambda: self._model.update_seconds(nodes, batches, servers))

    def largest_batch(self, nodes: Ints) -> Ints:
        return self._answer(("largest", nodes.tobytes()), lambda: self._model.largest_batch(nodes))

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        key = "latencies", nodes.tobytes(), np.asarray(batches, float).tobytes()
        return self._answer(key, lambda: self._model.latencies(nodes, batches))

    def _answer(self, key: tuple[object, ...], ask: Callable[[], Array]) -> Array:
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]
