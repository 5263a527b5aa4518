"""A grid of runs: strategies x planners x seeds, spread over the cores, and a table of what came out."""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from littoral.deciding import decide
from littoral.job import Job, blame
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.result import FINISHED
from littoral.run import Options, free_folder, run_plan

LR_FACTORS = (0.5, 1.0, 2.0)  # of the recipe's learning rate
SEARCH_SEEDS = (1000, 1001)  # after the first of those compared

_Cell = tuple[Job, Plan, Path, Options]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One cell of the grid."""

    label: str
    folder: Path
    lr: float  # the recipe's, before a strategy scales it
    result: dict[str, Any]


def tune_jobs(jobs: Sequence[Job], *, seed: int = 0) -> list[Job]:
    """Every job with the learning rate that serves it best, found for all by the same search on seeds of its own.

    The best is the soonest at the target with all of the search's seeds; where none is, the most accurate in the end.
    """
    tried = [_with_lr(job, factor) for job in jobs for factor in LR_FACTORS]
    with tempfile.TemporaryDirectory() as folder:
        runs = compare_jobs(tried, seeds=[seed + each for each in SEARCH_SEEDS], out=Path(folder), what="search")
    results, n = [run.result for run in runs], len(SEARCH_SEEDS)
    scores = [_promise(results[at : at + n]) for at in range(0, len(results), n)]
    best = [min(range(len(LR_FACTORS)), key=scores[at:].__getitem__) for at in range(0, len(scores), len(LR_FACTORS))]
    return [tried[len(LR_FACTORS) * number + factor] for number, factor in enumerate(best)]


def _with_lr(job: Job, factor: float) -> Job:
    """All are measured against the lone device with the rate that was given."""
    given = {**job.recipe, "lr": _lr(job)}
    return replace(job, recipe={**given, "lr": factor * given["lr"]}, yardstick=job.yardstick or given)


def _promise(results: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Smaller is better."""
    times = [math.inf if result["time_to_target_s"] is None else result["time_to_target_s"] for result in results]
    return statistics.fmean(times), -statistics.fmean(result["accuracy"] or 0.0 for result in results)


def compare_jobs(
    jobs: Sequence[Job], *, seeds: Iterable[int], out: Path, timing_only: bool = False, what: str = "runs"
) -> list[Run]:
    """Run every job with every seed. All plans are made first, so that nothing starts if one is impossible."""
    cells: list[_Cell] = []
    for job in jobs:
        with blame(job, "strategy"):
            task = load_task(job.task, job.task_options, job.recipe)
            plan = decide(job, task)
        for seed in seeds:
            options = Options(seed=seed, timing_only=timing_only)
            cells.append((job, plan, free_folder(out, job, plan, seed, taken={c[2] for c in cells}), options))
    results = [_run_cell(cells[0])] if len(cells) == 1 else _run_together(cells, what)
    return [
        Run(label=label(plan), folder=folder, lr=_lr(job), result=result)
        for (job, plan, folder, _), result in zip(cells, results, strict=True)
    ]


def _run_together(cells: Sequence[_Cell], what: str) -> list[dict[str, Any]]:
    """As many at once as there are cores, each in a process of its own."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(len(cells), os.cpu_count() or 1), mp_context=context) as pool:
        done = track(pool.map(_run_cell, cells), total=len(cells), description=what, console=console,
                     disable=not console.is_terminal, transient=True)  # fmt: skip
        return list(done)


def _lr(job: Job) -> float:
    return load_task(job.task, job.task_options, job.recipe).recipe.lr


def _run_cell(cell: _Cell) -> dict[str, Any]:
    job, plan, folder, options = cell
    return run_plan(job, load_task(job.task, job.task_options, job.recipe), plan, folder, options)


def label(plan: Plan) -> str:
    """A strategy with its settings, as a row's name."""
    settings = " ".join(f"{key}={value}" for key, value in plan.parameters.items())
    return f"{plan.strategy} {settings}".strip()


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per strategy and planner: means over seeds, spread, and the speed-up over the slowest row."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.label, run.result["planner"]), []).append(run)
    rows = [
        {"strategy": name, "planner": planner, "lr": cells[0].lr, **_means([cell.result for cell in cells])}
        for (name, planner), cells in groups.items()
    ]
    known = [row["time_to_target_s"] for row in rows if row["time_to_target_s"] is not None]
    for row in rows:
        mine = row["time_to_target_s"]
        row["speed_up"] = None if mine is None else max(known) / mine
    return rows


def _means(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def mean(key: str) -> float | None:
        values = [result[key] for result in results]
        return None if any(value is None for value in values) else statistics.fmean(values)

    reached = [result["time_to_target_s"] for result in results]
    whole = None not in reached
    paces = [result["time_s"] / result["epochs"] for result in results if result["epochs"]]
    errors = [result["predicted"]["error"] for result in results]
    return {
        "seeds": len(results),
        "time_to_target_s": mean("time_to_target_s"),
        "time_to_target_spread_s": max(reached) - min(reached) if whole else None,
        "time_s": mean("time_s"),
        "epoch_s": statistics.fmean(paces) if paces else None,
        "failed": sum(result["reason"] not in FINISHED for result in results),
        "accuracy": mean("accuracy"),
        "goodput_efficiency": mean("goodput_efficiency"),
        "throughput_efficiency": mean("throughput_efficiency"),
        "bytes_sent": mean("bytes_sent"),
        "wan_bytes": mean("wan_bytes"),
        "cost_usd": mean("cost_usd"),
        "violated": sum(result["slo"]["violated"] for result in results),
        "prediction_error": None if None in errors else statistics.fmean(errors),
    }
