"""Ctrl-C: a clear line at once, exit code 130, no traceback and nothing left behind, however often it is pressed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from littoral.deciding import decide
from littoral.events import Checkpointed, EpochFinished, Event
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.result import Tally
from littoral.run import Options, resumable, run_plan
from littoral.rundir import RunFolder
from littoral.testing import small_job

PATIENCE_S = 90  # only a hanging test takes that long


@contextmanager
def running(folder: Path, world: str) -> Iterator[subprocess.Popen[str]]:
    """``littoral run`` with a job that does not end by itself while a test waits."""
    job = small_job(strategy="parameter_server", epochs=20_000)
    task = load_task(job.task, job.task_options, job.recipe)
    RunFolder(folder / "given").begin(job, make_plan(job, task.footprint(), task.recipe))
    command = ["run", str(folder / "given" / "job.yaml"), "--world", world, "--out", str(folder / "runs")]
    with subprocess.Popen(
        [sys.executable, "-m", "littoral", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def press(times: int, process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, and again once there was an answer; what was said. Neither process nor child may be left."""
    family = children(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.readline()
    for _ in range(times - 1):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)  # or two of them would be one
    said += process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130, said
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_run_with_processes_says_what_happens_and_how_to_go_on(times: int, tmp_path: Path) -> None:
    with running(tmp_path, "processes") as process:
        until(lambda: list(tmp_path.glob("runs/*/checkpoint.safetensors")), process)
        assert len(children(process)) > 4
        said = press(times, process)
    (folder,) = (tmp_path / "runs").iterdir()
    first, *others = said.splitlines()
    assert first == (
        "littoral: interrupted; the run's processes are being ended; "
        f"go on with it: littoral run --resume {folder}"
    )  # fmt: skip
    assert set(others) <= {"littoral: still ending; once more ends it on the spot"}
    assert len(others) < times
    assert resumable(folder)[2].resume


def test_while_processes_are_started_it_is_the_same(tmp_path: Path) -> None:
    with running(tmp_path, "processes") as process:
        until(lambda: children(process), process)
        assert press(2, process).startswith("littoral: interrupted; the run's processes are being ended")


def test_a_simulated_run_can_be_gone_on_with(tmp_path: Path) -> None:
    with running(tmp_path, "simulated") as process:
        until(lambda: any(path.stat().st_size for path in tmp_path.glob("runs/*/journal.jsonl")), process)
        said = press(1, process)
    (folder,) = (tmp_path / "runs").iterdir()
    assert said == f"littoral: interrupted; go on with it: littoral run --resume {folder}\n"
    assert resumable(folder)[2].resume


@pytest.mark.parametrize("world", ["simulated", "processes"])
def test_killed_between_its_last_checkpoint_and_its_end_a_run_only_ends(tmp_path: Path, world: str) -> None:
    job = small_job(epochs=1)
    task = load_task(job.task, job.task_options, job.recipe)
    plan, told = decide(job, task), list[Event]()

    def killed(event: Event, tally: Tally) -> None:
        told.append(event)
        if isinstance(event, Checkpointed) and any(isinstance(e, EpochFinished) and e.left == 0 for e in told):
            raise SystemExit(9)

    with pytest.raises(SystemExit):
        run_plan(job, task, plan, tmp_path, Options(world=world), watch=killed)
    result = run_plan(job, task, plan, tmp_path, Options(world=world, resume=True))
    assert (result["reason"], result["samples"]) == ("epochs", plan.samples)
