"""A run joins plan, supervisor and world: the world says what happened, the supervisor says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from littoral.continuum.write import continuum_document
from littoral.errors import RunFailed
from littoral.events import Event, RunStarted
from littoral.job import Job, job_document
from littoral.journal import Journal
from littoral.learning.mathematics import RealMathematics, TimingOnly
from littoral.learning.task import Task, load_task
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.result import Tally
from littoral.rundir import RunFolder
from littoral.strategies.strategy import make_strategy
from littoral.supervisor import Supervisor
from littoral.worlds.simulated.session import Session

Watcher = Callable[[Event, Tally], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run, as opposed to what."""

    seed: int = 0
    timing_only: bool = False
    detail: bool = True  # journal single steps and messages
    resume: bool = False
    reference: bool = True  # measure what one device alone needs, for goodput_efficiency


def run(job: Job, folder: Path, options: Options = Options(), *, watch: Watcher | None = None) -> dict[str, Any]:
    """Plan a job and run it in the simulated world; the result, which ``folder`` keeps too."""
    task = load_task(job.task, job.task_options)
    plan = make_plan(job, task.footprint(), task.recipe)
    return run_plan(job, task, plan, folder, options, watch=watch)


def run_plan(
    job: Job, task: Task, plan: Plan, folder: Path, options: Options = Options(), *, watch: Watcher | None = None
) -> dict[str, Any]:
    """Run a plan that was already made."""
    keep = RunFolder(folder)
    footprint = task.footprint()
    real = not options.timing_only
    session = Session(
        job=job,
        plan=plan,
        strategy=make_strategy(plan.strategy, plan.parameters),
        footprint=footprint,
        mathematics=RealMathematics(task, plan, options.seed) if real else TimingOnly(footprint),
        keeper=keep,
        seed=options.seed,
    )
    supervisor = Supervisor(plan, target=job.accuracy, on_failure=job.on_failure)
    reference = keep.reference(job, task, options.seed) if real and options.reference else None
    tally = Tally(job, plan, footprint, options.seed, reference)
    keep.begin(job, plan)
    session.emit(_started(job, plan, options))
    if options.resume:
        session.resume()
    with Journal(keep.journal, append=options.resume, detail=options.detail) as journal:
        try:
            for event in session.events():
                journal.write(event)
                tally.update(event)
                if watch is not None:
                    watch(event, tally)
                for command in supervisor.handle(event):
                    journal.write(command)
                    session.perform(command)
        except RunFailed as error:
            tally.reason = str(error)
    result = tally.result()
    keep.finish(result)
    return result


def _started(job: Job, plan: Plan, options: Options) -> RunStarted:
    return RunStarted(
        t=0.0,
        run=f"{job.name}-{plan.strategy}-{plan.planner}-s{options.seed}",
        world="simulated",
        seed=options.seed,
        timing_only=options.timing_only,
        job=job_document(job),
        continuum=continuum_document(job.continuum),
        plan=msgspec.to_builtins(plan),
    )
