"""Every strategy on the same continuums with the same number of samples: does it learn, and what does that take?

    python benchmarks/converge.py run --data FOLDER [--caltech FOLDER] [--jobs N] [--studies a,b] [--out FILE]
    python benchmarks/converge.py table [--out FILE]

Runs are simulated with real gradients, spread over the cores, and appended to FILE (JSON lines) one by one: started
again, it does what is missing. Learning rates are found for every strategy by the same search first: three factors of
the recipe's rate, a third of the data, one epoch, a seed of its own; the factor with the best accuracy at the end wins.
Where a longer run with it goes astray nevertheless (ends with less than half of that accuracy), the next best takes its
place, for all seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from trials import Row, final_accuracy, follow, known, perform, reached

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
    ("dlion", {"growth": False}),
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


def trial(key: str, folders: dict[str, str]) -> Row:
    """One run, from its key."""
    study, strategy, parameters, factor, seed, search = json.loads(key)
    return follow(job_of(Item(study, strategy, tuple(map(tuple, parameters)), factor, seed, search), folders))


# -- what to run --------------------------------------------------------------------------------------------------


def search_items(studies: Sequence[str]) -> Iterator[Item]:
    """The search for learning rates."""
    for study in studies:
        for strategy, parameters in ENTRIES:
            for factor in FACTORS:
                yield Item(study, strategy, tuple(parameters.items()), factor, SEARCH_SEED, True)


def final_items(studies: Sequence[str], rows: dict[str, Row]) -> Iterator[Item]:
    """Three seeds of every strategy with the rate that was found."""
    for seed in SEEDS:
        for study in studies:
            for strategy, parameters in ENTRIES:
                factor = best_factor(study, strategy, tuple(parameters.items()), rows)
                if factor is not None:
                    yield Item(study, strategy, tuple(parameters.items()), factor, seed, False)


def best_factor(study: str, strategy: str, parameters: Any, rows: dict[str, Row]) -> float | None:
    """The factor with which the search ended best and no longer run went astray; None if the strategy was refused."""
    found = {}
    for factor in FACTORS:
        row = rows.get(Item(study, strategy, parameters, factor, SEARCH_SEED, True).key)
        longer = [rows.get(Item(study, strategy, parameters, factor, seed, False).key) for seed in SEEDS]
        if row is not None and row.get("curve"):
            astray = any(final_accuracy(other) < final_accuracy(row) / 2 for other in longer if other is not None)
            found[factor] = 0.0 if astray else final_accuracy(row)
    return max(found, key=found.__getitem__) if found else None


# -- what came out ------------------------------------------------------------------------------------------------


def tables(out: Path) -> str:
    """Markdown: accuracy beside synchronous SGD's, then time, bytes and cost to a target that all-reduce reaches."""
    rows = known(out)
    studies = [study for study in STUDIES if any(json.loads(key)[0] == study for key in rows)]
    return f"{_accuracies(studies, rows)}\n\n{_to_targets(studies, rows)}"


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


def _to_targets(studies: Sequence[str], rows: dict[str, Any]) -> str:
    """Two points below where all-reduce ends; means of the seeds that get there."""
    targets = {}
    for study in studies:
        base = [final_accuracy(row) for row in _seeds(study, "allreduce", {}, rows)]
        if base:
            targets[study] = round(statistics.mean(base) - 0.02, 2)
    head = [f"{study} to {target:.2f}" for study, target in targets.items()]
    lines = ["| strategy | " + " | ".join(head) + " |", "|---" * (len(targets) + 1) + "|"]
    for strategy, parameters in ENTRIES:
        cells = [_reaching(study, target, strategy, parameters, rows) for study, target in targets.items()]
        lines.append(f"| {_label(strategy, parameters)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _reaching(study: str, target: float, strategy: str, parameters: dict[str, Any], rows: dict[str, Any]) -> str:
    """All-reduce's seconds, or how many times sooner; times its samples; bytes (between sites where there are two)."""
    base, mine = _seeds(study, "allreduce", {}, rows), _seeds(study, strategy, parameters, rows)
    bases = [point for row in base if (point := reached(row, target))]
    points = [point for row in mine if (point := reached(row, target))]
    if not points or not bases:
        return f"0/{len(mine)}"
    seconds, samples, _, _, wan, usd, sent = (statistics.mean(column) for column in zip(*points, strict=True))
    slow, needed = (statistics.mean(column) for column in list(zip(*bases, strict=True))[:2])
    share = "" if len(points) == len(mine) else f"{len(points)}/{len(mine)}: "
    time_ = f"{seconds:.0f} s" if strategy == "allreduce" else f"{slow / seconds:.2f} x"
    money = f"; {usd:.3f} USD" if usd else ""
    return f"{share}{time_}; {samples / needed:.2f}; {(wan or sent) / 1e6:.0f} MB{money}"


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
    each = partial(trial, folders=folders)
    keys = [item.key for item in search_items(studies)]
    rows = perform(each, keys, asked.out, jobs=asked.jobs, deadline=deadline)
    for _ in FACTORS:  # a rate that goes astray is replaced
        keys = [item.key for item in final_items(studies, rows)]
        rows = perform(each, keys, asked.out, jobs=asked.jobs, deadline=deadline)


if __name__ == "__main__":
    main()
