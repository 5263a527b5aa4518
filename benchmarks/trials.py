"""Simulated runs for studies: one after another or on all cores, kept one by one, so that a study can be resumed."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # a run's key and outcome
Build = Callable[..., Any]  # makes a job from the key's arguments


def follow(job: Any, *, timing_only: bool = False) -> Row:
    """Simulate a job; what was reached at every evaluation: seconds, samples, accuracy, loss, bytes, USD."""
    from littoral.errors import LittoralError
    from littoral.events import Evaluated
    from littoral.learning.task import load_task
    from littoral.planning.planner import make_plan
    from littoral.result import Tally
    from littoral.run import open_session
    from littoral.supervisor import Supervisor
    from littoral.testing import MemoryKeeper

    began = time.time()
    try:
        task = load_task(job.task, job.task_options, job.recipe)
        plan = make_plan(job, task.footprint(), task.recipe)
    except LittoralError as refusal:
        return {"refused": str(refusal)}
    session = open_session(job, task, plan, MemoryKeeper(), seed=job.seed, timing_only=timing_only)
    supervisor = Supervisor(plan, target=job.accuracy)
    tally, curve = Tally(job, plan, task.footprint(), job.seed), []
    for event in session.events():
        tally.update(event)
        if isinstance(event, Evaluated):
            now = tally.result()
            curve.append([event.t, event.samples, event.accuracy, event.loss, now["wan_bytes"], now["cost_usd"],
                          now["bytes_sent"]])  # fmt: skip
        for command in supervisor.handle(event):
            session.perform(command)
    result = tally.result()
    kept = ("reason", "time_s", "samples", "bytes_sent", "wan_bytes", "cost_usd", "slo")
    return {
        "curve": curve, "took_s": time.time() - began, "workers": len(plan.workers),
        "pooled": tally.pooled_samples_per_s(), **{name: result[name] for name in kept},
    }  # fmt: skip


def known(out: Path) -> dict[str, Row]:
    """Rows of earlier runs; a line cut short does not count."""
    rows = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["key"]] = row
    return rows


def perform(
    trial: Callable[[str], Row], keys: Sequence[str], out: Path, *, jobs: int, deadline: float = float("inf")
) -> dict[str, Row]:
    """Run ``trial(key)`` for every key that has no row yet, in parallel; nothing is begun after the deadline."""
    rows = known(out)
    todo = [key for key in keys if key not in rows]
    began, count = time.time(), 0
    print(f"{len(todo)} of {len(keys)} runs to do", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(jobs) as pool, out.open("a") as file:
        waiting = iter(todo)
        running = {pool.submit(trial, key): key for key in islice(waiting, jobs)}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                key, count = running.pop(future), count + 1
                row = rows[key] = {"key": key, **future.result()}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(
                    f"{time.time() - began:5.0f} s  {count}/{len(todo)}  {key}: {told(row)}",
                    file=sys.stderr,
                    flush=True,
                )
                following = next(waiting, None) if time.time() < deadline else None
                if following is not None:
                    running[pool.submit(trial, following)] = following
    return rows


def told(row: Mapping[str, Any]) -> str:
    """A row in a few words."""
    if "refused" in row:
        return f"refused: {row['refused']}"
    accuracy = f"{final_accuracy(row):.4f} " if row["curve"] else ""
    return f"{accuracy}{row['reason']} at {row['time_s']:.1f} s, took {row['took_s']:.0f} s"


def final_accuracy(row: Mapping[str, Any]) -> float:
    """The median of the last three evaluations."""
    return statistics.median(point[2] for point in row["curve"][-3:])


def reached(row: Mapping[str, Any], target: float) -> list[float] | None:
    """The first evaluation at which the median of three consecutive ones passes the target."""
    curve: list[list[float]] = row["curve"]
    for last in range(2, len(curve)):
        if statistics.median(point[2] for point in curve[last - 2 : last + 1]) >= target:
            return curve[last]
    return None


def at_time(row: Mapping[str, Any], seconds: float) -> float:
    """Accuracy at the last evaluation before some time."""
    before: list[float] = [point[2] for point in row["curve"] if point[0] <= seconds]
    return before[-1]
