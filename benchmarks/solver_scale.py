"""CPU seconds that the solvers take for 10 to 10,000 nodes, and the exponent by which they grow.

    python benchmarks/solver_scale.py [--most 10000] [--believe lines,description,profile] [--profile FOLDER]

The same search asks three kinds of models: straight lines, a described continuum (one site, all ports shared), and
functions learned from a profile, every node in a state of its own (a measured one, shaken by 2 %). Run it with
OMP_NUM_THREADS=1, for CPU seconds of one core; on an idle machine they are the time. 100 samples per node; two
placements of servers for lines and profiles. Fitting a profile's models, once per kind, is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.routes import Routes
from littoral.continuum.signal import Constant
from littoral.learning.task import Footprint, load_task
from littoral.planning.deepedge import solve
from littoral.planning.described import DescribedPerformance
from littoral.planning.instance import Instance, Scheme
from littoral.planning.paces import Setting
from littoral.planning.profiled import ProfiledPerformance
from littoral.planning.search import search
from littoral.profiling.estimators import estimators
from littoral.profiling.profile import load

sys.path.append(str(Path(__file__).parent.parent / "tests" / "planning"))
from instances import random_instance

OURS = Path(__file__).parent / "deep_edge" / "profile"
SHAKE = 0.02
LADDER = (1, 2, 4, 8, 16, 32, 64)
Make = Callable[[int], Instance]


def lines(n: int) -> Instance:
    """Times that are straight lines of the batch."""
    return random_instance(n, n, samples=100 * n, ladder=LADDER)


def description(n: int) -> Instance:
    """Devices up to four times slower than the quickest, whose updates wait for each other at the server's port."""
    speeds = np.random.default_rng(n).uniform(25.0, 100.0, n)
    devices = tuple(Device(name=f"w-{i}", site="lab", step=StepTime(fixed_seconds=0.05, seconds_per_sample=1 / speed),
                           memory_bytes=1e9) for i, speed in enumerate(speeds))  # fmt: skip
    port = Constant(1.25e6 * n)  # so that the port is as busy with many as with few
    link = Link(a="lab", b="lab", forward=port, backward=port, latency_s=1e-3)
    hub = Device(
        name="hub", site="lab", step=StepTime(seconds_per_sample=1.0), memory_bytes=1e9, uplink=port, downlink=port
    )
    continuum = Continuum(name="lab", sites=(Site(name="lab"),), devices=(*devices, hub), links=(link,))
    footprint = task_of(n)
    setting = Setting(continuum=continuum, routes=Routes(continuum), task=footprint, epochs=1,
                      sample_bytes=footprint.sample_bytes)  # fmt: skip
    names = [device.name for device in devices]
    model = DescribedPerformance(setting, names, ["hub"], footprint)
    return Instance(names=tuple(names), samples=100 * n, performance=model, ladder=LADDER)


@cache
def task_of(n: int) -> Footprint:
    return load_task("littoral.tasks.synthetic", {"samples": 100 * n, "features": 32}, {}).footprint()


def profiled(folder: Path, kinds: list[str]) -> Make:
    """Nodes of these kinds, in states that were measured and shaken, each with an app that has a second."""
    profile = load(folder)
    task = next(one for kind, one in profile.pairs() if kind == kinds[0])
    known = {kind: estimators(profile, kind, task) for kind in kinds}
    rows = {kind: profile.training_of(kind, task) for kind in kinds}
    servers = [rows[kinds[0]][place].server for place in (0, -1)]
    ladder = tuple(sorted({row.batch for row in rows[kinds[0]]}))
    app = profile.apps_of(kinds[0])[0]

    def make(n: int) -> Instance:
        dice = np.random.default_rng(n)
        mine = [kinds[place] for place in dice.integers(len(kinds), size=n)]
        states = []
        for kind in mine:
            state = rows[kind][int(dice.integers(len(rows[kind])))].before
            cpu, load, memory = np.exp(SHAKE * dice.standard_normal(3)) * (state.cpu, state.load, state.memory)
            states.append(replace(state, cpu=min(1.0, cpu), load=load, memory=min(1.0, memory)))
        model = ProfiledPerformance(known, mine, states, servers, [(app, frozenset(range(n)))])
        names = tuple(f"w-{i}" for i in range(n))
        return Instance(names=names, samples=100 * n, performance=model, ladder=ladder, batch_most=ladder[-1],
                        apps=(app,), deadlines=np.ones((n, 1)), server_choices=((0,), (1,)))  # fmt: skip

    search(make(4))  # which fits the models
    return make


def measure(make: Make, sizes: list[int]) -> None:
    """A row per size, and the growth."""
    spent = []
    print(f"{'nodes':>8}{'search s':>12}{'deepedge s':>12}{'deepedge / search time':>26}")
    for n in sizes:
        found, seconds = _timed(search, make(n))
        known, took = _timed(solve, make(n))  # answers are kept, so that each is given an instance of its own
        spent.append(seconds)
        print(f"{n:>8}{seconds:>12.3f}{took:>12.3f}{known / found:>26.3f}", flush=True)
    for least in (10, 300):  # up to 128 nodes change one by one: many more are treated in groups
        some = [(n, s) for n, s in zip(sizes, spent, strict=True) if n >= least]
        if len(some) > 1:
            power = np.polyfit(*np.log(np.array(some)).T, 1)[0]
            print(f"from {least} nodes on, search grows with nodes to the power {power:.2f}")


def _timed(solver: Callable[[Instance], Scheme], instance: Instance) -> tuple[float, float]:
    """The total time of the answer, and the CPU seconds that it took."""
    began = time.process_time()
    scheme = solver(instance)
    return scheme.total_s, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=10_000)
    parser.add_argument("--believe", default="lines,description,profile")
    parser.add_argument("--profile", type=Path, default=OURS)
    parser.add_argument("--kinds", default="half-shared,quarter-shared")
    given = parser.parse_args()
    sizes = [n for n in (10, 30, 100, 300, 1000, 3000, 10_000) if n <= given.most]
    makers = {"lines": lambda: lines, "description": lambda: description,
              "profile": lambda: profiled(given.profile, given.kinds.split(","))}  # fmt: skip
    for name in given.believe.split(","):
        print(f"{name}:")
        measure(makers[name](), sizes)


if __name__ == "__main__":
    main()
