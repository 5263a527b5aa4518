"""Deep-Edge's random experiments for real, in the lab: states are read, plans made from a profile, epochs measured.

    python benchmarks/live_experiments.py run JOB.yaml PROFILE --out FILE [--count 12] [--seed 0] [--pin]
    python benchmarks/live_experiments.py table FILE...

Per experiment all devices are stressed at random, from its beginning to its end; their states and their apps' latencies
are measured; each solver plans an epoch from these states; each epoch is run, with the apps beside it, in random order,
and once only where solvers agree on shards and batches. Lateness is counted in both windows, with training and without.
A line per experiment is appended to FILE; one that is there is not run.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from littoral.errors import Infeasible, InputError, RunFailed
from littoral.events import Computed
from littoral.experiments import SOLVERS, Setting, cluster, solvers
from littoral.job import Job, load_job
from littoral.learning.task import Task, load_task
from littoral.planning.instance import Instance, Scheme
from littoral.planning.plan import Plan, Worker
from littoral.planning.planner import make_plan
from littoral.profiling.bench import HASTE, Bench
from littoral.profiling.design import Point, points
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import load
from littoral.profiling.rows import State
from littoral.profiling.sweep import server_of, space_of
from littoral.rehearsal import Forgetful
from littoral.supervisor import Supervisor
from littoral.worlds.lab.lab import Lab
from littoral.worlds.opening import open_live
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Forge

ALONE_S, SETTLE_S = 8.0, 1.5
DRAWS = 20  # of stress, until no app is late before training
Window = tuple[float, float]


class Trials:
    """The lab with its apps, and what is done in it."""

    def __init__(self, job: Job, setting: Setting, bench: Bench, lab: Lab, forge: Forge) -> None:
        self._job, self._setting, self._bench, self._lab, self._forge = job, setting, bench, lab, forge
        self._task: Task = load_task(job.task, job.task_options, job.recipe)
        self._server = server_of(job)
        self._deadlines = {app.name: app.deadline_s for app in job.continuum.apps}
        self._workers = space_of(job, self._server).workers

    def experiment(self, number: int, drawn: Sequence[Point]) -> dict[str, Any]:
        """One draw of stress that leaves every app in time, and an epoch by every solver under it."""
        with ExitStack() as stack:
            states, late = self._quiet(stack, drawn)
            return self._epochs(number, states, late)

    def _quiet(self, stack: ExitStack, drawn: Sequence[Point]) -> tuple[dict[str, State], dict[str, Any]]:
        """The first stress under which nobody is late, or the last of those drawn; the stack ends it."""
        names = (*self._workers, self._server)
        for point in drawn:
            stack.close()
            stack.enter_context(self._bench.stressed(point))
            time.sleep(SETTLE_S)
            start = time.monotonic()
            time.sleep(ALONE_S)
            window = start, time.monotonic()
            if not (late := self._late(window))["late"]:
                break
        return {name: self._bench.state(name, window, None) for name in names}, late

    def _epochs(self, number: int, states: Mapping[str, State], late: dict[str, Any]) -> dict[str, Any]:
        instance = cluster(self._setting, [states[name] for name in self._workers], states[self._server])
        instance = replace(instance, samples=self._task.footprint().samples)
        run: dict[tuple[Any, ...], dict[str, Any]] = {}
        row: dict[str, Any] = {"number": number, "alone": late, "solvers": {}}
        for name in np.random.default_rng(number).permutation(list(SOLVERS)).tolist():  # speeds drift
            try:
                scheme = solvers(self._job.batch or 0)[name](instance)
                same = tuple(scheme.shards), tuple(scheme.batches)
                if same not in run:
                    run[same] = self._epoch(scheme)
                row["solvers"][name] = run[same] | self._foretold(instance, scheme)
            except (Infeasible, InputError, RunFailed) as error:  # what Algorithm 1 prints need not be a plan
                row["solvers"][name] = {"error": str(error)}
            print(number, name, row["solvers"][name], flush=True)
        return row | {"runs": len(run)}

    def _foretold(self, instance: Instance, scheme: Scheme) -> dict[str, Any]:
        """The epoch as predicted; a worker's share in it, and its seconds per sample and per update."""
        nodes = np.array(scheme.workers)
        batches, performance = np.array(scheme.batches)[nodes], instance.performance
        compute = performance.compute_seconds(nodes, batches)
        update = performance.update_seconds(nodes, batches, instance.server_choices[scheme.servers])
        shares = zip(nodes.tolist(), batches.tolist(), compute.tolist(), update.tolist(), strict=True)
        return {"predicted_s": scheme.epoch_s, "workers": {
            self._workers[node]: {"shard": scheme.shards[node], "batch": batch, "compute_s": c, "update_s": u}
            for node, batch, c, u in shares
        }}  # fmt: skip

    def _late(self, window: Window) -> dict[str, Any]:
        """Periods, and how many were late; of every device also the latencies' mean, 95th percentile and longest."""
        told = {(app, device): np.array(seen) for (app, device), seen in self._bench.latencies(window).items()}
        return {
            "periods": sum(map(len, told.values())),
            "late": sum(int((seen >= self._deadlines[app]).sum()) for (app, _), seen in told.items()),
            "latencies_s": {device: [seen.mean(), np.quantile(seen, 0.95), seen.max()]
                            for (_, device), seen in told.items() if len(seen)},
        }  # fmt: skip

    def _epoch(self, scheme: Scheme) -> dict[str, Any]:
        plan = self._plan(scheme)
        job = replace(self._job, faults=(), accuracy=None, evaluate_every=1e9, epochs=1,
                      workers=tuple(worker.device for worker in plan.workers),
                      continuum=replace(self._job.continuum, apps=()))  # fmt: skip
        supervisor, offset, steps = Supervisor(plan), math.inf, list[Computed]()
        with ExitStack() as stack:
            stack.callback(self._speed, 1.0)
            self._speed(HASTE)
            session = stack.enter_context(open_live(
                job, self._task, plan, Forgetful(), seed=0, launcher=self._forge, ground=Ground(self._lab),
                judged=False,
            ))  # fmt: skip
            for command in supervisor.begin():
                session.perform(command)
            for event in session.events():
                offset = min(offset, time.monotonic() - event.t)
                if isinstance(event, Computed):
                    steps.append(event)
                    if len(steps) == 1:  # everybody is up
                        self._speed(1.0)
                for command in supervisor.handle(event):
                    session.perform(command)
        start, end = min(step.start for step in steps), max(step.t for step in steps)  # start-up is another matter
        ends = {step.node: step.t - start for step in steps}
        return {"measured_s": end - start, "ends_s": ends, "paces_s": paces(steps)} | self._late(
            (offset + start, offset + end)
        )

    def _speed(self, factor: float) -> None:
        for device in self._workers:
            self._lab.set_speed(device, factor)

    def _plan(self, scheme: Scheme) -> Plan:
        job = replace(self._job, planner="fair", epochs=1, strategy="parameter_server", parameters={"mode": "asp"},
                      profile=None, continuum=replace(self._job.continuum, apps=()))  # fmt: skip
        plan = make_plan(job, self._task.footprint(), self._task.recipe)
        known = {worker.device: worker for worker in plan.workers}
        workers: list[Worker] = [
            replace(known[name], shard=scheme.shards[i], batch=scheme.batches[i])
            for i, name in enumerate(self._workers)
            if scheme.shards[i]
        ]
        return replace(plan, workers=tuple(workers))


def paces(steps: Sequence[Computed]) -> dict[str, tuple[float, float]]:
    """Of every worker: seconds per sample, and from the end of one batch to the beginning of the next."""
    by_node: dict[str, list[Computed]] = {}
    for step in steps:
        by_node.setdefault(step.node, []).append(step)
    return {
        node: (sum(step.t - step.start for step in own) / sum(step.samples for step in own),
               float(np.mean([after.start - step.t for step, after in pairwise(own)])))
        for node, own in by_node.items()
    }  # fmt: skip


def run(asked: argparse.Namespace) -> None:
    job = replace(load_job(asked.job), profile=None)
    server = server_of(job)
    space = space_of(job, server)
    kinds = kinds_of(job, space.workers)
    profile = load(asked.profile)
    app = job.continuum.apps[0]
    setting = Setting(profile=profile, kinds=tuple(kinds[name] for name in space.workers), task=job.workload,
                      app=app.name, deadline_s=app.deadline_s, seed=asked.seed)  # fmt: skip
    done = {row["number"] for row in rows_of([asked.out])} if asked.out.exists() else set()
    with (
        Lab.up(job.continuum, pin=asked.pin) as lab, Forge() as forge,
        Bench(job, kinds, server, ground=Ground(lab), launcher=forge, shake=0.0) as bench,
    ):  # fmt: skip
        trials = Trials(job, setting, bench, lab, forge)
        for number in (asked.seed * asked.count + i for i in range(asked.count)):
            if number not in done:
                row = trials.experiment(number, list(islice(points(space, asked.seed * 1000 + number), DRAWS)))
                with asked.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def rows_of(files: Sequence[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def table(asked: argparse.Namespace) -> None:
    rows = rows_of(asked.files)
    alone = np.array([[row["alone"]["late"], row["alone"]["periods"]] for row in rows]).sum(axis=0)
    print(f"{len(rows)} experiments; without training {alone[0]} of {alone[1]} periods late")
    print(f"| solver | epoch | fair / it | least-most | predicted off by | periods late | failed |\n{'|---' * 7}|")
    for name in SOLVERS:
        both = [(row["solvers"]["fair"], row["solvers"][name]) for row in rows
                if "error" not in row["solvers"]["fair"] and "error" not in row["solvers"][name]]  # fmt: skip
        gains = np.array([fair["measured_s"] / one["measured_s"] for fair, one in both])
        off = np.array([one["predicted_s"] / one["measured_s"] - 1 for _, one in both])
        late, periods = (sum(one[key] for _, one in both) for key in ("late", "periods"))
        epoch = np.mean([one["measured_s"] for _, one in both])
        print(f"| {name} | {epoch:.1f} s | {gains.mean():.2f} ± "
              f"{gains.std(ddof=1) / math.sqrt(len(gains)):.2f} | {gains.min():.2f}-{gains.max():.2f} | "
              f"{100 * off.mean():+.0f} % (mean size {100 * np.abs(off).mean():.0f} %) | {late} of {periods} | "
              f"{len(rows) - len(both)} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    running = verbs.add_parser("run")
    running.add_argument("job", type=Path)
    running.add_argument("profile", type=Path)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--count", type=int, default=12)
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--pin", action="store_true", help="every device on cores of its own")
    running.set_defaults(act=run)
    showing = verbs.add_parser("table")
    showing.add_argument("files", type=Path, nargs="+")
    showing.set_defaults(act=table)
    asked = parser.parse_args()
    asked.act(asked)


if __name__ == "__main__":
    main()
