"""The process of one run: ``python -m littoral.manager.runner FOLDER``. Started by the manager, and ended with it.

It reads ``given`` and ``order.json`` in the folder and leaves a result or ``error.json``. It holds a lock on the folder
while it lives, so that a run never has two processes at work: one started too early waits for the other's end, and
finds its result. Its standard input is a pipe whose other end only the manager has: when it closes, because the run
shall stop or the manager is gone, however it went, a checkpoint is taken and the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from littoral.errors import InputError, LittoralError
from littoral.events import Event
from littoral.interruption import EXIT_CODE, Interruption
from littoral.job import Job, load_job
from littoral.learning.task import Task, load_task
from littoral.manager.children import step_back
from littoral.manager.feed import FILE, FeedWriter
from littoral.manager.present import Absent, check_plan, without
from littoral.planning.plan import Plan
from littoral.result import FINISHED, Tally
from littoral.run import Options, resumable, run_plan
from littoral.rundir import write_whole

ORDER, ERROR, LOCK = "order.json", "error.json", ".run.lock"
CHECKPOINT_S = 10.0  # to take a last checkpoint in
PATIENCE_S = 30.0  # to end everything in, before the process is ended on the spot


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How to run what was given; ``plan`` null: make one, without those who are absent."""

    options: Options
    seeded: bool  # whether the options' seed counts, or the job's own
    plan: Plan | None = None
    absent: Absent = Absent()


def main() -> None:
    """Run what a folder asks for."""
    step_back()
    folder = Path(sys.argv[1])
    leaving = threading.Event()
    with Interruption() as interruption:
        try:
            threading.Thread(target=_watch_manager, args=(leaving,), daemon=True).start()
            with _alone(folder):
                _run(folder, interruption, leaving)
        except LittoralError as error:
            write_whole(folder / ERROR, json.dumps({"detail": _told(error)}))
            print(f"littoral: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            sys.exit(EXIT_CODE)


def _told(error: LittoralError) -> str:
    """What went wrong, without the places of files that only this machine has."""
    if isinstance(error, InputError):
        return f"{error.found}; {error.remedy}" if error.remedy else error.found
    return str(error)


def _watch_manager(leaving: threading.Event) -> None:
    """When the manager's end of the pipe closes: ask for a checkpoint, then interrupt, then end on the spot."""
    while os.read(0, 1024):
        pass
    leaving.set()
    threading.Event().wait(CHECKPOINT_S)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(PATIENCE_S)
    os._exit(EXIT_CODE)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(folder: Path, interruption: Interruption, leaving: threading.Event) -> None:
    if finished(folder):
        return
    (folder / "result.json").unlink(missing_ok=True)  # of an attempt that failed
    job, task, plan, options = _begun(folder) or _fresh(folder)
    with FeedWriter(folder / FILE) as feed:

        def watch(event: Event, tally: Tally) -> None:
            interruption.check()
            feed(event, tally)

        result = run_plan(job, task, plan, folder, options, watch=watch, leave=leaving.is_set)
    print(f"ended: {result['reason']}", file=sys.stderr)


def finished(folder: Path) -> bool:
    """Whether the run in a folder did its work."""
    result = outcome(folder)
    return result is not None and result["reason"] in FINISHED


def outcome(folder: Path) -> dict[str, Any] | None:
    """The result in a folder, if there is one; one that a power cut damaged is none."""
    try:
        found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


Work = tuple[Job, Task, Plan, Options]


def _begun(folder: Path) -> Work | None:
    """What an earlier process of this run was doing; None if that is not known for sure."""
    if not (folder / "journal.jsonl").exists():
        return None
    try:
        job, plan, options = resumable(folder)
    except InputError as error:  # it had hardly begun, or a power cut damaged what it wrote
        print(f"from the beginning: {error}", file=sys.stderr)
        return None
    job = replace(job, task_options=_given(folder).task_options)  # the data folder may have moved since
    options = replace(options, reference=False, address=_order(folder).options.address)
    return job, load_task(job.task, job.task_options, job.recipe), plan, options


def _given(folder: Path) -> Job:
    return load_job(folder / "given" / "job.yaml")


def _order(folder: Path) -> Order:
    return msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)


def _fresh(folder: Path) -> Work:
    from littoral.deciding import decide

    order = _order(folder)
    job = _given(folder)
    if order.plan is None:
        job = without(job, order.absent)
    else:
        check_plan(order.plan, order.absent)
    task = load_task(job.task, job.task_options, job.recipe)
    options = order.options if order.seeded else replace(order.options, seed=job.seed)
    return job, task, order.plan or decide(job, task), options


if __name__ == "__main__":
    main()
