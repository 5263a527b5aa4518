"""Deep-Edge's 120 random experiments on a profile of ours: epoch times by solver, and whether apps keep deadlines.

    python benchmarks/experiments.py PROFILE [--count 120] [--seed 0] [--deadline SECONDS]

One worker of the profile's fastest kind and three of the others, as in the paper; every worker runs the profiled app
and is in a state that was measured under random stress (without training), with no deadline missed before training
begins. Epochs of 3,855 samples. All schemes are judged by the same learned functions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from littoral.errors import Infeasible
from littoral.planning import deepedge
from littoral.planning.exact import solve_exact
from littoral.planning.instance import Instance, Scheme, violations
from littoral.planning.profiled import ProfiledPerformance
from littoral.planning.search import search
from littoral.planning.simple import solve_fair
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.profile import Profile, load

SAMPLES, WORKERS = 3855, 4
LADDER = (4, 8, 16, 32, 64, 128)
SOLVERS: dict[str, Callable[[Instance], Scheme]] = {
    "fair": solve_fair,
    "deepedge-paper": deepedge.solve_paper,
    "deepedge": deepedge.solve,
    "search": search,
    "exact": solve_exact,
}


def experiment(
    profile: Profile, known: dict[str, Estimators], app: str, deadline_s: float, dice: np.random.Generator
) -> Instance:
    """One random cluster, as it is before training."""
    quick = sorted(known, key=lambda kind: float(np.mean([r.compute_s for r in profile.training if r.kind == kind])))
    kinds = [quick[0], *(quick[1 + i % (len(quick) - 1)] if len(quick) > 1 else quick[0] for i in range(WORKERS - 1))]
    states = [_calm(profile, known[kind], kind, app, deadline_s, dice) for kind in kinds]
    server = profile.training[int(dice.integers(len(profile.training)))].server
    model = ProfiledPerformance(known, kinds, states, [server], [(app, frozenset(range(WORKERS)))])
    return Instance(
        names=tuple(f"{kind}-{i}" for i, kind in enumerate(kinds)), samples=SAMPLES, performance=_Remembered(model),
        ladder=LADDER, batch_least=LADDER[0], batch_most=LADDER[-1], apps=(app,),
        deadlines=np.full((WORKERS, 1), deadline_s),
    )  # fmt: skip


def _calm(profile: Profile, one: Estimators, kind: str, app: str, deadline_s: float, dice: np.random.Generator):  # type: ignore[no-untyped-def]
    """A measured state in which the app keeps its deadline."""
    rows = [row for row in profile.training if row.kind == kind]
    for _ in range(1000):
        state = rows[int(dice.integers(len(rows)))].before
        if one.exec_time(app, state).high[0] <= deadline_s:
            return state
    raise SystemExit(f"no measured state of {kind} lets {app} keep {deadline_s} s: give a longer --deadline")


class _Remembered:
    """Answers that were given before are given again: solvers ask about the same batches many times."""

    def __init__(self, model: ProfiledPerformance) -> None:
        self._model, self._known = model, {}  # type: ignore[var-annotated]

    def _ask(self, name: str, *arguments):  # type: ignore[no-untyped-def]
        key = (name, *(np.asarray(a).tobytes() for a in arguments), np.asarray(arguments[-1]).shape)
        if key not in self._known:
            self._known[key] = getattr(self._model, name)(*arguments)
        return self._known[key]

    def compute_seconds(self, nodes, batches):  # type: ignore[no-untyped-def]
        return self._ask("compute_seconds", nodes, batches)

    def update_seconds(self, nodes, batches, servers):  # type: ignore[no-untyped-def]
        return self._ask("update_seconds", nodes, batches, servers)

    def largest_batch(self, nodes):  # type: ignore[no-untyped-def]
        return self._ask("largest_batch", nodes)

    def latencies(self, nodes, batches):  # type: ignore[no-untyped-def]
        return self._ask("latencies", nodes, batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=1.0)
    asked = parser.parse_args()
    profile = load(asked.profile)
    task = profile.training[0].task
    known = {kind: estimators(profile, kind, task) for kind, _ in profile.pairs()}
    app = profile.apps[0].app
    dice, began = np.random.default_rng(asked.seed), time.time()
    times: dict[str, list[float]] = {name: [] for name in SOLVERS}
    wrong = dict.fromkeys(SOLVERS, 0)
    idle = dict.fromkeys(SOLVERS, 0)
    for number in range(asked.count):
        instance = experiment(profile, known, app, asked.deadline, dice)
        for name, solve in SOLVERS.items():
            try:
                scheme = solve(instance)
            except Infeasible:
                times[name].append(np.nan)
                continue
            times[name].append(scheme.epoch_s)
            wrong[name] += bool(violations(instance, scheme))
            idle[name] += WORKERS - len(scheme.workers)
        if (number + 1) % 10 == 0:
            print(f"{number + 1} of {asked.count}, {time.time() - began:.0f} s", flush=True)
    report(times, wrong, idle, asked)


def report(
    times: dict[str, list[float]], wrong: dict[str, int], idle: dict[str, int], asked: argparse.Namespace
) -> None:
    fair = np.array(times["fair"])
    print(f"{asked.count} experiments, seed {asked.seed}, deadline {asked.deadline} s; epoch times, fair / solver")
    print(f"{'solver':>15}  mean   min   max  above 1.5  breaks a rule  idle workers  infeasible")
    for name, found in times.items():
        ratio = fair / np.array(found)
        some = ratio[np.isfinite(ratio)]
        print(f"{name:>15}  {np.mean(some):.2f}  {np.min(some):.2f}  {np.max(some):.2f}  {np.mean(some > 1.5):9.0%}  "
              f"{wrong[name]:13}  {idle[name] / asked.count:12.2f}  {len(ratio) - len(some):10}")  # fmt: skip
    slower = sum(a > b * (1 + 1e-9) for a, b in zip(times["search"], times["deepedge"], strict=True))
    gaps = [
        a / b - 1 for a, b in zip(times["search"], times["exact"], strict=True) if np.isfinite(a) and np.isfinite(b)
    ]
    print(f"search slower than deepedge in {slower}; above exact by {100 * statistics.mean(gaps):.2f} % on average")


if __name__ == "__main__":
    main()
