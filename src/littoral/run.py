"""A run joins plan, supervisor and world: the world says what happened, the supervisor says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from littoral.commands import Command, SaveCheckpoint
from littoral.continuum.write import continuum_document
from littoral.errors import InputError
from littoral.events import Checkpointed, Event, FaultInjected, RunStarted
from littoral.job import COORDINATOR, Job, job_document, load_job
from littoral.journal import Journal, history, read_journal
from littoral.learning.mathematics import RealMathematics, TimingOnly
from littoral.learning.task import Task, load_task
from littoral.planning.plan import Plan
from littoral.result import FINISHED, Tally
from littoral.rundir import RunFolder
from littoral.strategies.strategy import make_strategy
from littoral.strikes import Strikes
from littoral.supervisor import Supervisor
from littoral.worlds.simulated.books import Keeper
from littoral.worlds.simulated.session import Session
from littoral.worlds.world import Session as World

WORLDS = ["simulated", "processes", "ray"]
Watcher = Callable[[Event, Tally], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run, as opposed to what. ``lab`` emulates the continuum on this machine (processes world, as root)."""

    world: str = "simulated"
    lab: bool = False
    address: str = ""  # of a Ray cluster
    seed: int = 0
    timing_only: bool = False
    detail: bool = True  # journal single steps and messages
    resume: bool = False
    reference: bool = True  # measure what one device alone needs, for goodput_efficiency


def run_job(job: Job, folder: Path, options: Options = Options(), *, watch: Watcher | None = None) -> dict[str, Any]:
    """Plan a job and run it; the result, which ``folder`` keeps too."""
    from littoral.deciding import decide  # which rehearses plans with what is here

    task = load_task(job.task, job.task_options, job.recipe)
    plan = decide(job, task)
    return run_plan(job, task, plan, folder, options, watch=watch)


def run_plan(
    job: Job,
    task: Task,
    plan: Plan,
    folder: Path,
    options: Options = Options(),
    *,
    watch: Watcher | None = None,
    leave: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a plan that was already made.

    When ``leave`` says so, a checkpoint is taken and KeyboardInterrupt raised: the run can be resumed from there.
    """
    keep = RunFolder(folder)
    counting = job.on_failure == "deepedge"
    strikes = keep.strikes() if counting else Strikes()
    with open_world(job, task, plan, keep, options) as session:
        reference = keep.reference(job, task, options.seed) if options.reference and not options.timing_only else None
        tally = Tally(job, plan, task.footprint(), options.seed, reference)
        if counting and not options.resume:
            strikes = keep.change_strikes(Strikes.begin_run)
        supervisor = Supervisor(plan, target=job.accuracy, plateau=job.plateau, on_failure=job.on_failure,
                            strikes=strikes)  # fmt: skip
        if options.resume:
            for event in history(keep.journal, session.resume()):
                tally.update(event)
                supervisor.recall(event)
        else:
            keep.begin(job, plan)
            session.emit(_started(job, plan, options))
        leaving = False
        with Journal(keep.journal, append=options.resume, detail=options.detail) as journal:

            def obey(commands: list[Command]) -> None:
                for command in commands:
                    journal.write(command)
                    session.perform(command)

            keep.before_saving = journal.flush
            obey(supervisor.begin())
            for event in session.events():
                journal.write(event)
                tally.update(event)
                if watch is not None:
                    watch(event, tally)
                if isinstance(event, RunStarted | FaultInjected):
                    journal.flush()  # what a resumption must know; the fault may be the coordinator's own
                obey(supervisor.handle(event))
                if supervisor.strikes != strikes:
                    keep.change_strikes(partial(supervisor.strikes.rebased, strikes))
                    strikes = supervisor.strikes
                if leaving and isinstance(event, Checkpointed):
                    raise KeyboardInterrupt
                if not leaving and leave():
                    leaving = True
                    obey([SaveCheckpoint()])
    result = tally.result() | {"forecasts": supervisor.forecasts()}
    keep.finish(result)
    return result


@contextmanager
def open_world(job: Job, task: Task, plan: Plan, keep: RunFolder, options: Options) -> Iterator[World]:
    """A run that has not begun, in the world asked for; whatever that needs is ended with it."""
    if options.world == "simulated":
        yield open_session(job, task, plan, keep, seed=options.seed, timing_only=options.timing_only)
        return
    if options.timing_only:
        raise InputError("timing only makes sense in virtual time", remedy="leave out --timing-only, or --world")
    from littoral.worlds.opening import open_live

    with open_live(
        job, task, plan, keep, seed=options.seed, world=options.world, lab=options.lab, address=options.address,
        folder=keep.folder, struck=_times_struck(keep) if options.resume else 0,
    ) as session:  # fmt: skip
        yield session


def _times_struck(keep: RunFolder) -> int:
    """Faults of the coordinator that an interrupted run has behind it: they must not kill it again."""
    events = read_journal(keep.journal)
    return sum(isinstance(event, FaultInjected) and event.target == COORDINATOR for event in events)


def open_session(job: Job, task: Task, plan: Plan, keeper: Keeper, *, seed: int, timing_only: bool = False) -> Session:
    """A run in virtual time that has not begun."""
    strategy, footprint = make_strategy(plan.strategy, plan.parameters), task.footprint()
    recipe = strategy.tune(task.recipe, len(plan.workers))
    mathematics = TimingOnly(footprint) if timing_only else RealMathematics(task, plan, seed, recipe)
    return Session(
        job=job,
        plan=plan,
        strategy=strategy,
        footprint=footprint,
        mathematics=mathematics,
        keeper=keeper,
        seed=seed,
    )


def resumable(folder: Path) -> tuple[Job, Plan, Options]:
    """What an interrupted run was doing, from its folder."""
    first = next(read_journal(folder / "journal.jsonl"), None)
    if not isinstance(first, RunStarted):
        raise InputError("the run never started", file=folder, remedy="run its job.yaml instead")
    result = folder / "result.json"
    if result.exists() and json.loads(result.read_text())["reason"] in FINISHED:
        raise InputError("the run is finished", file=folder, remedy=f"see it with: littoral report {folder}")
    plan = msgspec.convert(first.plan, Plan)
    return (
        load_job(folder / "job.yaml"),
        plan,
        Options(
            world=first.world.partition("+")[0],
            lab=first.world.endswith("+lab"),
            seed=first.seed,
            timing_only=first.timing_only,
            resume=True,
        ),
    )


def free_folder(out: Path, job: Job, plan: Plan, seed: int, taken: Collection[Path] = ()) -> Path:
    """A folder for a run that no other run has."""
    name = run_name(job, plan, seed)
    folder, number = out / name, 2
    while folder.exists() or folder in taken:
        folder, number = out / f"{name}-{number}", number + 1
    return folder


def run_name(job: Job, plan: Plan, seed: int) -> str:
    """A name that says what ran."""
    settings = "".join(f"-{value}" for value in plan.parameters.values())
    return f"{job.name}-{plan.strategy}{settings}-{plan.planner}-s{seed}"


def _started(job: Job, plan: Plan, options: Options) -> RunStarted:
    return RunStarted(
        t=0.0,
        run=run_name(job, plan, options.seed),
        world=f"{options.world}+lab" if options.lab else options.world,
        seed=options.seed,
        timing_only=options.timing_only,
        job=job_document(job),
        continuum=continuum_document(job.continuum),
        plan=msgspec.to_builtins(plan),
    )
