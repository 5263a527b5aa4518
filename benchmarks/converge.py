"""Every strategy on the same continuums with the same number of samples: does it learn, and what does that take?

    python benchmarks/converge.py run --data FOLDER [--caltech FOLDER] [--jobs N] [--studies a,b] [--out FILE]
    python benchmarks/converge.py table [--out FILE]

Runs are simulated with real gradients, spread over the cores, and appended to FILE (JSON lines) one by one: started
again, it does what is missing. Learning rates are found for every strategy by the same search first: three factors of
the recipe's rate, a third of the data, one epoch, a seed of its own; the factor with the best accuracy at the end wins.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SEEDS = (0, 1, 2)
FACTORS = (0.5, 1.0, 2.0)
SEARCH_SEED = 100
ENTRIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("allreduce", {}),
    ("parameter_server", {"mode": "ssp"}),
    ("parameter_server", {"mode": "asp"}),
    ("dpsgd", {"topology": "ring"}),
    ("dpsgd", {"topology": "fast-links"}),
    ("dpsgd", {"topology": "fast-links", "codec": "int8"}),
    ("sgp", {}),
    ("adpsgd", {}),
    ("hop", {}),
    ("hop", {"backups": 1}),
    ("hop", {"staleness": 5}),
    ("prague", {}),
    ("local_sgd", {}),
    ("local_sgd", {"period": 16, "site_period": 2}),
    ("diloco", {}),
    ("diloco", {"fragments": 3, "overlap": 2, "codec": "fp4"}),
    ("diloco", {"mode": "async"}),
    ("gaia", {}),
    ("dlion", {}),
    ("fedavg", {}),
    ("fedasync", {}),
    ("fedbuff", {}),
)


@dataclass(frozen=True)
class Study:
    """Where, on what."""

    example: str
    task: str
    epochs: int
    split: str = "iid"
    alpha: float = 0.5
    samples: int = 60_000


STUDIES = {
    "micro-clouds": Study("micro-clouds", "fashion", 2),
    "eleven-regions": Study("eleven-regions", "fashion", 2),
    "edge-cluster": Study("edge-cluster", "fashion", 2),
    "fog-and-cloud": Study("fog-and-cloud", "fashion", 2),
    "skewed": Study("micro-clouds", "fashion", 2, split="dirichlet", alpha=0.3),
    "caltech": Study("fog-and-cloud", "caltech", 8, samples=0),
}


@dataclass(frozen=True)
class Item:
    """One run."""

    study: str
    strategy: str
    parameters: tuple[tuple[str, Any], ...]
    factor: float
    seed: int
    search: bool

    @property
    def key(self) -> str:
        return json.dumps([self.study, self.strategy, self.parameters, self.factor, self.seed, self.search])

    @property
    def label(self) -> str:
        return " ".join([self.strategy, *(f"{key}={value}" for key, value in self.parameters)])


def job_of(item: Item, folders: dict[str, str]) -> Any:
    """The study's job."""
    from littoral.job import Limits, load_job
    from littoral.learning.task import load_task

    study = STUDIES[item.study]
    job = load_job(ROOT / "examples" / study.example / "job.yaml")
    task, options = f"littoral.tasks.{_TASKS[study.task]}", {"folder": folders[study.task]}
    if study.task == "caltech":
        options["model"] = "resnet8"
    if item.search and study.samples:
        options["samples"] = study.samples // 3
    lr = load_task(task, options, {}).recipe.lr
    return replace(
        job, task=task, task_options=options, recipe={"lr": lr * item.factor}, strategy=item.strategy,
        parameters=dict(item.parameters), epochs=max(1, study.epochs // 2) if item.search else study.epochs,
        accuracy=None, faults=(), limits=Limits(), planner="proportional", split=study.split, alpha=study.alpha,
        evaluate_every=0.125 * study.epochs / 2, wire="float32", seed=item.seed,
    )  # fmt: skip


_TASKS = {"fashion": "fashion_mnist", "caltech": "caltech101"}


def run(item: Item, folders: dict[str, str]) -> dict[str, Any]:
    """Simulate one run; accuracy, time, bytes and cost at every evaluation."""
    from littoral.errors import LittoralError
    from littoral.events import Evaluated
    from littoral.learning.task import load_task
    from littoral.planning.planner import make_plan
    from littoral.result import Tally
    from littoral.run import open_session
    from littoral.supervisor import Supervisor
    from littoral.testing import MemoryKeeper

    row: dict[str, Any] = {"key": item.key, "started": time.time()}
    try:
        job = job_of(item, folders)
        task = load_task(job.task, job.task_options, job.recipe)
        plan = make_plan(job, task.footprint(), task.recipe)
    except LittoralError as refusal:
        return row | {"refused": str(refusal)}
    session = open_session(job, task, plan, MemoryKeeper(), seed=item.seed)
    supervisor, tally, curve = Supervisor(plan), Tally(job, plan, task.footprint(), item.seed), []
    for event in session.events():
        tally.update(event)
        if isinstance(event, Evaluated):
            so_far = tally.result()
            curve.append([event.t, event.samples, event.accuracy, event.loss, so_far["wan_bytes"],
                          so_far["cost_usd"], so_far["bytes_sent"]])  # fmt: skip
        for command in supervisor.handle(event):
            session.perform(command)
    result = tally.result()
    kept = ("reason", "time_s", "samples", "bytes_sent", "wan_bytes", "cost_usd", "slo")
    return row | {
        "curve": curve, "took_s": time.time() - row["started"], "workers": len(plan.workers),
        "pooled": tally.pooled_samples_per_s(), **{name: result[name] for name in kept},
    }  # fmt: skip


# -- what to run --------------------------------------------------------------------------------------------------


def known(out: Path) -> dict[str, dict[str, Any]]:
    """Rows of earlier runs; a line cut short does not count."""
    rows = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["key"]] = row
    return rows


def search_items(studies: Sequence[str]) -> Iterator[Item]:
    """The search for learning rates."""
    for study in studies:
        for strategy, parameters in ENTRIES:
            for factor in FACTORS:
                yield Item(study, strategy, tuple(parameters.items()), factor, SEARCH_SEED, True)


def final_items(studies: Sequence[str], rows: dict[str, dict[str, Any]]) -> Iterator[Item]:
    """Three seeds of every strategy with the rate that was found."""
    for seed in SEEDS:
        for study in studies:
            for strategy, parameters in ENTRIES:
                factor = best_factor(study, strategy, tuple(parameters.items()), rows)
                if factor is not None:
                    yield Item(study, strategy, tuple(parameters.items()), factor, seed, False)


def best_factor(study: str, strategy: str, parameters: Any, rows: dict[str, dict[str, Any]]) -> float | None:
    """The factor with which the search ended best; None if the strategy was refused."""
    found = {}
    for factor in FACTORS:
        row = rows.get(Item(study, strategy, parameters, factor, SEARCH_SEED, True).key)
        if row is not None and row.get("curve"):
            found[factor] = final_accuracy(row)
    return max(found, key=found.__getitem__) if found else None


def final_accuracy(row: dict[str, Any]) -> float:
    """The median of the last three evaluations."""
    return statistics.median(point[2] for point in row["curve"][-3:])


def perform(items: Sequence[Item], out: Path, folders: dict[str, str], jobs: int, deadline: float) -> None:
    """Run what is missing, in parallel; every row is kept at once. Nothing is begun after the deadline."""
    done = known(out)
    todo = [item for item in items if item.key not in done]
    began = time.time()
    print(f"{len(todo)} of {len(items)} runs to do", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(jobs) as pool, out.open("a") as file:
        waiting = iter(todo)
        running = {pool.submit(run, item, folders): item for item, _ in zip(waiting, range(jobs), strict=False)}
        count = 0
        while running:
            future = next(as_completed(running))
            item, count = running.pop(future), count + 1
            row = future.result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            text = row.get("refused") or f"{final_accuracy(row):.4f} {row['reason']} in {row['took_s']:.0f} s"
            print(f"{time.time() - began:5.0f} s  {count}/{len(todo)}  {item.study}, {item.label}, x{item.factor:g}, "
                  f"seed {item.seed}: {text}", file=sys.stderr, flush=True)  # fmt: skip
            following = next(waiting, None) if time.time() < deadline else None
            if following is not None:
                running[pool.submit(run, following, folders)] = following


# -- what came out ------------------------------------------------------------------------------------------------


def reached(row: dict[str, Any], target: float) -> list[float] | None:
    """The first evaluation at which the median of three consecutive ones passes the target."""
    curve = row["curve"]
    for last in range(2, len(curve)):
        if statistics.median(point[2] for point in curve[last - 2 : last + 1]) >= target:
            point: list[float] = curve[last]
            return point
    return None


def tables(out: Path) -> str:
    """Markdown: accuracy beside synchronous SGD's, then time, bytes and cost to a target that all-reduce reaches."""
    rows = known(out)
    studies = [study for study in STUDIES if any(json.loads(key)[0] == study for key in rows)]
    return "\n\n".join([_accuracies(studies, rows), *(_to_target(study, rows) for study in studies)])


def _seeds(study: str, strategy: str, parameters: dict[str, Any], rows: dict[str, Any]) -> list[dict[str, Any]]:
    key = tuple(parameters.items())
    factor = best_factor(study, strategy, key, rows)
    if factor is None:
        return []
    found = [rows.get(Item(study, strategy, key, factor, seed, False).key) for seed in SEEDS]
    return [row for row in found if row is not None and row.get("curve")]


def _accuracies(studies: Sequence[str], rows: dict[str, Any]) -> str:
    lines = ["| strategy | " + " | ".join(studies) + " |", "|---" * (len(studies) + 1) + "|"]
    for strategy, parameters in ENTRIES:
        cells = []
        for study in studies:
            mine = [final_accuracy(row) for row in _seeds(study, strategy, parameters, rows)]
            base = [final_accuracy(row) for row in _seeds(study, "allreduce", {}, rows)]
            if not mine or not base:
                cells.append("-")
                continue
            factor = best_factor(study, strategy, tuple(parameters.items()), rows)
            if strategy == "allreduce":
                text = f"{statistics.mean(mine):.4f}"
            else:
                text = f"{100 * (statistics.mean(mine) - statistics.mean(base)):+.2f}"
            cells.append(f"{text} ({min(mine):.3f}-{max(mine):.3f}, x{factor:g})")
        lines.append(f"| {_label(strategy, parameters)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _to_target(study: str, rows: dict[str, Any]) -> str:
    base = _seeds(study, "allreduce", {}, rows)
    if not base:
        return f"{study}: nothing yet"
    target = round(statistics.mean(final_accuracy(row) for row in base) - 0.02, 2)
    needed = [point[1] for row in base if (point := reached(row, target))]
    lines = [
        f"{study}, to accuracy {target:.2f} (all-reduce: {statistics.mean(needed) if needed else 0:.0f} samples)",
        "",
        "| strategy | seeds | time | x all-reduce | samples x | efficiency | between sites | USD |",
        "|---|---|---|---|---|---|---|---|",
    ]
    slow = [point[0] for row in base if (point := reached(row, target))]
    for strategy, parameters in ENTRIES:
        mine = _seeds(study, strategy, parameters, rows)
        points = [point for row in mine if (point := reached(row, target))]
        if not points or not slow:
            lines.append(f"| {_label(strategy, parameters)} | {len(points)}/{len(mine)} | - | - | - | - | - | - |")
            continue
        seconds, samples, _, _, wan, usd, _ = (statistics.mean(column) for column in zip(*points, strict=True))
        pooled = mine[0]["pooled"]
        lines.append(
            f"| {_label(strategy, parameters)} | {len(points)}/{len(mine)} | {seconds:.0f} s "
            f"({min(p[0] for p in points):.0f}-{max(p[0] for p in points):.0f}) | "
            f"{statistics.mean(slow) / seconds:.2f} | {samples / statistics.mean(needed):.2f} | "
            f"{statistics.mean(needed) / pooled / seconds:.3f} | {wan / 1e6:.0f} MB | {usd:.3f} |"
        )
    return "\n".join(lines)


def _label(strategy: str, parameters: dict[str, Any]) -> str:
    return " ".join([strategy, *(f"{key}={value}" for key, value in parameters.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=["run", "table"])
    parser.add_argument("--data", help="folder of Fashion-MNIST")
    parser.add_argument("--caltech", help="folder of Caltech-101 at 32 x 32")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after this time")
    parser.add_argument("--out", type=Path, default=Path("converge.jsonl"))
    asked = parser.parse_args()
    if asked.act == "table":
        print(tables(asked.out))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    folders = {name: folder for name, folder in (("fashion", asked.data), ("caltech", asked.caltech)) if folder}
    studies = [study for study in asked.studies.split(",") if STUDIES[study].task in folders]
    deadline = time.time() + 60 * asked.minutes
    perform(list(search_items(studies)), asked.out, folders, asked.jobs, deadline)
    perform(list(final_items(studies, known(asked.out))), asked.out, folders, asked.jobs, deadline)


if __name__ == "__main__":
    main()
