"""What a command's arguments mean: a job with other settings, its plan, a world, the runs in a folder.

As in ``cli``, everything heavy is imported where it is needed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from littoral.errors import InputError

if TYPE_CHECKING:
    from littoral.job import Job
    from littoral.learning.task import Task
    from littoral.planning.plan import Plan
    from littoral.run import Options


def load(file: Path, strategy: str | None = None, planner: str | None = None) -> Job:
    """The job of a file, with another strategy or planner if one is named."""
    from littoral.job import load_job

    job = load_job(file)
    sys.path.append(str(file.resolve().parent))  # tasks and strategies may lie beside the job
    if strategy is not None:
        job = with_strategy(job, strategy)
    return replace(job, planner=planner) if planner is not None else job


def with_strategy(job: Job, spec: str) -> Job:
    """The job with a strategy given as ``name:key=value``; the bare name of its own keeps its parameters."""
    name, *pairs = _parts(spec)
    if not pairs and name == job.strategy:
        return job
    return replace(job, strategy=name, parameters=dict(_pair(pair) for pair in pairs))


def strategy_names(text: str) -> list[str]:
    """The strategies of a list separated by commas; ``all`` means every one that littoral knows."""
    from littoral.strategies.strategy import REGISTRY, declared

    return [*REGISTRY, *declared()] if text == "all" else [part for part in text.split(",") if part]


def _parts(spec: str) -> list[str]:
    """A name and pairs; a colon that no ``key=`` follows belongs to what is before it, as in ``package.file:Class``.

    >>> _parts("dpsgd:topology=ring:codec=topk:0.01"), _parts("mine:Mine")
    (['dpsgd', 'topology=ring', 'codec=topk:0.01'], ['mine:Mine'])
    """
    parts: list[str] = []
    for word in spec.split(":"):
        if parts and "=" not in word:
            parts[-1] += f":{word}"
        else:
            parts.append(word)
    return parts


def _pair(text: str) -> tuple[str, Any]:
    import yaml

    key, _, value = text.partition("=")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError(f"{text!r} is no parameter", remedy="write key=value, such as mode=bsp") from error


def world_of(name: str, lab: bool) -> str:
    """The world that the options mean; the lab is one for processes."""
    from littoral.document import suggest
    from littoral.run import WORLDS

    if name not in WORLDS:
        raise InputError(f"unknown world {name!r}", remedy=suggest(name, WORLDS))
    if lab and name == "ray":
        raise InputError("the lab is on this machine, a Ray cluster is not", remedy="leave out --lab or --world ray")
    return "processes" if lab else name


def plan_of(job: Job) -> Plan:
    """What is decided for the job."""
    from littoral.deciding import decide
    from littoral.job import blame

    task = task_of(job)
    with blame(job, "strategy"):
        return decide(job, task, parallel=True)


def front_of(job: Job) -> list[tuple[Plan, float]]:
    """Plans between quick, cheap and fair, with their fairness."""
    from littoral.job import blame
    from littoral.planning.planner import make_front

    task = task_of(job)
    with blame(job, "strategy"):
        return make_front(job, task.footprint(), task.recipe)


def task_of(job: Job) -> Task:
    """The job's task; modules beside where littoral was started can be named."""
    from littoral.job import blame
    from littoral.learning.task import load_task

    if "" not in sys.path:
        sys.path.insert(0, "")
    with blame(job, "task"):
        return load_task(job.task, job.task_options, job.recipe)


def saved_plan(path: Path, job: Job) -> Plan:
    """A plan from its file, if it is one for this job."""
    import msgspec

    from littoral.planning.plan import Plan
    from littoral.planning.refusing import check_plan

    try:
        saved = msgspec.json.decode(path.read_bytes(), type=Plan)
        check_plan(saved, job, task_of(job).footprint())
    except msgspec.MsgspecError as error:
        remedy = "make it with 'littoral plan --save'"
        raise InputError(f"not a plan: {error}", file=path, remedy=remedy) from error
    except InputError as error:
        raise error.at(path) from error
    return saved


def warn_of_idle_faults(job: Job, decided: Plan) -> None:
    """Tell on stderr which of a job's faults this plan leaves nobody to suffer."""
    nodes = {*decided.device_of, *decided.device_of.values()}
    for fault in job.faults:
        if fault.node and fault.node not in nodes:
            note = f"this plan has no node {fault.node!r}; its {fault.kind} does nothing"
            print(f"littoral: note: {note}", file=sys.stderr)


def advice_if_interrupted(folder: Path, options: Options) -> str:
    """What becomes of a run on Ctrl-C."""
    ending = "" if options.world == "simulated" else "; the run's processes are being ended"
    journal = folder / "journal.jsonl"
    begun = journal.exists() and journal.stat().st_size > 0
    return f"{ending}; go on with it: littoral run --resume {quote(str(folder))}" if begun else ending


def runs_in(path: Path) -> list[Path]:
    """A run's folder stands for itself, a folder of runs for all of them."""
    if (path / "journal.jsonl").exists():
        return [path]
    return sorted(journal.parent for journal in path.glob("*/journal.jsonl")) or [path]
