"""One machine with a graphics card as four unequal workers: the card, and six, three and one of its cores.

    python benchmarks/mixed.py --data FASHION-MNIST --out FOLDER [--minutes 4] [--epochs 2] [--repeats 2]

Everything is real: the devices are control groups of this machine (as root, at least 14 cores), they are profiled under
stress, models are fitted, and the epochs that equal shards and searched ones take are measured in the same lab.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from littoral.deciding import decide
from littoral.job import Job, load_job
from littoral.learning.task import load_task
from littoral.profiling.automl import Budget
from littoral.profiling.bench import Bench, Windows
from littoral.profiling.estimators import fit
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import save
from littoral.profiling.sweep import begun, server_of, space_of, sweep
from littoral.profiling.table import show, table
from littoral.run import Options, run_plan
from littoral.worlds.lab.lab import Lab
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Forge

PLANNERS = ("fair", "deepedge-paper", "deepedge", "search")
CONTINUUM = """\
name: mixed
sites: [{name: room, tier: edge}]
devices:
  - {name: card, site: room, cpu: 2, card: 0, speed: 500 GFLOP/s, memory: 8 GiB}
  - {name: six-cores, site: room, cpu: 6, speed: 120 GFLOP/s, memory: 3 GiB}
  - {name: three-cores, site: room, cpu: 3, speed: 60 GFLOP/s, memory: 3 GiB}
  - {name: one-core, site: room, cpu: 1, speed: 20 GFLOP/s, memory: 3 GiB}
  - {name: hub, site: room, cpu: 1.5, speed: 30 GFLOP/s, memory: 3 GiB}
links:
  - {between: [room, room], bandwidth: 10 Gbit/s, latency: 0.1 ms}
"""
JOB = """\
continuum: continuum.yaml
task: {{name: littoral.tasks.fashion_mnist, folder: {data}, width: 2.0}}
target: {{epochs: {epochs}}}
batch: 64
workers: [card, six-cores, three-cores, one-core]
servers: [hub]
strategy: {{name: parameter_server, mode: asp}}
profile: profile
"""


def measure(job: Job, folder: Path, minutes: float) -> None:
    """Profile the devices and fit models."""
    server = server_of(job)
    space = space_of(job, server)
    kinds = kinds_of(job, space.workers)
    windows = Windows(settle_s=0.7, before_s=1.5, skip_s=0.5, during_s=2.5)
    with (
        Lab.up(job.continuum) as lab, Forge() as forge,
        Bench(job, kinds, server, ground=Ground(lab), launcher=forge, windows=windows) as bench,
    ):  # fmt: skip
        found = sweep(bench, space, folder, begun(folder, kinds, job.workload), budget_s=60 * minutes, tell=tell)
    began = time.monotonic()
    fitted = fit(found, budget=Budget(trials=12, seconds=5.0), jobs=os.cpu_count() or 1)
    save(fitted, folder)
    print(show(table(fitted)))
    tell(f"fitted in {time.monotonic() - began:.0f} s")


def compare(job: Job, out: Path, repeats: int) -> None:
    """Epochs of each planner, in turn."""
    times: dict[str, list[float]] = {name: [] for name in PLANNERS}
    foretold: dict[str, float] = {}
    task = load_task(job.task, job.task_options, job.recipe)
    for number, name in product(range(repeats), PLANNERS):
        one = replace(job, planner=name)
        plan = decide(one, task)
        options = Options(world="processes", lab=True, seed=number, reference=False)
        result = run_plan(one, task, plan, out / f"{name}-{number}", options)
        times[name].append(result["time_s"] / job.epochs)
        foretold[name] = plan.predicted.epoch_s
        shares = ", ".join(f"{worker.device} {worker.shard} by {worker.batch}" for worker in plan.workers)
        tell(f"{name}: {times[name][-1]:.2f} s per epoch; {shares}")
    print("| planner | epoch, measured | spread | predicted | fair / it |\n|---|---|---|---|---|")
    fair = statistics.mean(times["fair"])
    for name, taken in times.items():
        mean, spread = statistics.mean(taken), f"{min(taken):.2f}-{max(taken):.2f}"
        print(f"| {name} | {mean:.2f} s | {spread} | {foretold[name]:.2f} s | {fair / mean:.2f} |")


def tell(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "continuum.yaml").write_text(CONTINUUM)
    (asked.out / "job.yaml").write_text(JOB.format(data=asked.data.resolve(), epochs=asked.epochs))
    job = load_job(asked.out / "job.yaml")
    measure(job, asked.out / "profile", asked.minutes)
    compare(job, asked.out, asked.repeats)


if __name__ == "__main__":
    main()
