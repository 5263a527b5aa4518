"""The process that makes plans, so that the service stays free: ``python -m littoral.manager.planning FOLDER``.

It reads ``given`` and ``wish.json`` in the folder and prints one JSON object: the plans, or what is wrong with the job.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from littoral.deciding import decide
from littoral.errors import Infeasible, InputError, LittoralError
from littoral.job import Job, load_job
from littoral.learning.task import Task, load_task
from littoral.manager.children import step_back
from littoral.manager.present import Absent, without
from littoral.planning.plan import Plan, fairness
from littoral.planning.planner import make_front
from littoral.run import Options, run_plan

WISH = "wish.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to make: one plan, or the front between quick, cheap and fair; tried in virtual time or not."""

    pareto: bool = False
    simulate: bool = False
    absent: Absent = field(default_factory=Absent)  # who is not planned with


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A plan; ``fairness`` is Jain's index, ``simulated`` the result of a run in virtual time without mathematics."""

    plan: dict[str, Any]
    fairness: float
    simulated: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Plans, or why there are none; ``infeasible`` if a constraint binds."""

    plans: list[Made] = field(default_factory=list)
    refused: str = ""
    remedy: str = ""
    infeasible: bool = False


def main() -> None:
    """Make what a folder asks for."""
    step_back()
    folder = Path(sys.argv[1])
    try:
        answer = Answer(plans=_make(folder))
    except InputError as error:
        answer = Answer(refused=error.found, remedy=error.remedy)
    except LittoralError as error:
        answer = Answer(refused=str(error), infeasible=isinstance(error, Infeasible))
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def _make(folder: Path) -> list[Made]:
    wish = msgspec.json.decode((folder / WISH).read_bytes(), type=Wish)
    job = without(load_job(folder / "given" / "job.yaml"), wish.absent)
    task = load_task(job.task, job.task_options, job.recipe)
    return [
        Made(
            plan=msgspec.to_builtins(plan),
            fairness=fair,
            simulated=_tried(job, task, plan, folder / f"try-{number}", wish),
        )
        for number, (plan, fair) in enumerate(_plans(job, task, wish))
    ]


def _plans(job: Job, task: Task, wish: Wish) -> list[tuple[Plan, float]]:
    if wish.pareto:
        return make_front(job, task.footprint(), task.recipe)
    plan = decide(job, task)
    return [(plan, fairness(plan))]


def _tried(job: Job, task: Task, plan: Plan, folder: Path, wish: Wish) -> dict[str, Any] | None:
    if not wish.simulate:
        return None
    return run_plan(job, task, plan, folder, Options(timing_only=True, seed=job.seed, detail=False))


if __name__ == "__main__":
    main()
