"""Whole runs with real processes: the strategies' contract, deaths of every kind, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from littoral.events import (
    AppChecked,
    Checkpointed,
    Computed,
    Evaluated,
    Event,
    Fetched,
    NodeLost,
    NodeReturned,
    Resumed,
    Sent,
)
from littoral.job import Fault, Job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.testing import Story, check_strategy, fail_at, live, simulate, small_job, used_spans
from littoral.worlds.processes.launch import Forge

STRATEGIES = [
    ("allreduce", {}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "bsp", "backups": 1}),
    ("parameter_server", {"mode": "ssp", "bound": 2}),
    ("parameter_server", {"mode": "asp", "servers": 2}),
    ("parameter_server", {"mode": "asp", "ahead": 1}),
]


@pytest.mark.parametrize(("name", "settings"), STRATEGIES)
def test_strategies_keep_their_contract(name: str, settings: dict[str, object], forge: Forge) -> None:
    story = check_strategy(name, run=lambda job: live(job, launcher=forge), **settings)
    assert story.of(Computed) and story.of(Sent)
    assert not story.of(NodeLost)


@pytest.mark.parametrize("name", ["allreduce", "parameter_server"])
def test_half_the_bytes_keep_the_contract(name: str, forge: Forge) -> None:
    sizes = []
    for wire in ("float32", "float16"):

        def run(job: Job, wire: str = wire) -> Story:
            larger = job.task_options | {"features": 100}  # so that headers do not matter
            return live(replace(job, wire=wire, task_options=larger), launcher=forge)

        story = check_strategy(name, run=run)
        sizes.append(max(event.size for event in story.of(Sent)))
    assert sizes[1] < 0.75 * sizes[0]


def test_a_run_that_nobody_judges_ends_all_the_same(forge: Forge) -> None:
    story = live(small_job(epochs=2), launcher=forge, judged=False)
    assert story.reason == "epochs" and story.contradictions() == []
    assert story.of(Computed) and not story.of(Evaluated)


def stormy(strategy: str, faults: list[Fault], **settings: object) -> Job:
    """A job that lasts a few seconds, so that there is something to disturb."""
    return small_job(strategy=strategy, epochs=6, task={"samples": 2400}, faults=faults, **settings)


def survived(story: Story) -> None:
    assert story.reason == "epochs"
    assert story.contradictions() == []
    assert story.accuracies[-1] > 0.9


@pytest.mark.parametrize("strategy", ["allreduce", "parameter_server"])
def test_a_worker_that_dies_for_good_is_survived(strategy: str, forge: Forge) -> None:
    story = live(stormy(strategy, [fail_at("w-2", 0.2)]), launcher=forge)
    survived(story)
    assert [lost.node for lost in story.of(NodeLost)] == ["w-2"]
    assert "SIGKILL" in story.of(NodeLost)[0].reason
    assert not story.of(NodeReturned)


@pytest.mark.parametrize("strategy", ["allreduce", "parameter_server"])
def test_a_worker_that_returns_joins_again(strategy: str, forge: Forge) -> None:
    story = live(stormy(strategy, [fail_at("w-1", 0.2, back_after_s=0.1)]), launcher=forge)
    survived(story)
    back = [event.t for event in story.of(NodeReturned) if event.node == "w-1"]
    assert back and any(event.node == "w-1" and event.t > back[0] for event in story.of(Computed))


@pytest.mark.parametrize("back_after_s", [0.1, float("inf")])
@pytest.mark.parametrize("world", ["simulated", "processes"])
def test_the_only_owner_of_an_all_reduce_may_die(world: str, back_after_s: float, forge: Forge) -> None:
    job = stormy("allreduce", [fail_at("w-1", 0.2, back_after_s=back_after_s)])
    task = load_task(job.task, job.task_options)
    plan = make_plan(job, task.footprint(), task.recipe)
    alone = [replace(worker, reduces=float(worker.name == "w-1")) for worker in plan.workers]
    plan = replace(plan, workers=tuple(alone))
    story = simulate(job, plan=plan) if world == "simulated" else live(job, plan=plan, launcher=forge)
    survived(story)
    means = {event.source for event in story.of(Sent) if event.message == "Mean"}
    lost = [event.t for event in story.of(NodeLost)]
    before = {event.source for event in story.of(Sent) if event.message == "Mean" and event.t < 0.2}
    assert lost and before == {"w-1"} < means  # then the others own alike


def test_a_server_that_dies_is_started_again_from_the_checkpoint(forge: Forge) -> None:
    story = live(replace(stormy("parameter_server", [fail_at("ps-1", 0.4)]), epochs=15), launcher=forge)
    survived(story)
    resumed = story.of(Resumed)
    assert len(resumed) == 1
    before = [event for event in story.of(Checkpointed) if event.t < resumed[0].t]
    assert resumed[0].samples == (before[-1].samples if before else 0)


def test_a_paused_worker_is_taken_for_lost_and_comes_back(forge: Forge) -> None:
    story = live(stormy("allreduce", [Fault(at_s=0.2, kind="pause", node="w-2", seconds=2.0)]), launcher=forge)
    survived(story)
    assert [lost.reason for lost in story.of(NodeLost)] == ["does not answer"]


def test_all_workers_may_die_if_they_come_back(forge: Forge) -> None:
    faults = [fail_at(f"w-{i}", 0.3, back_after_s=0.1) for i in (1, 2, 3)]
    survived(live(stormy("allreduce", faults), launcher=forge))


def test_a_process_killed_from_outside_is_replaced(forge: Forge) -> None:
    """No script: somebody kills a worker's process, as an out-of-memory killer would."""
    killed: list[int] = []

    def kill(event: Event) -> None:
        if isinstance(event, Computed) and event.node == "w-3" and not killed:
            zygote = next(p for p in psutil.Process().children() if "zygote" in " ".join(p.cmdline()))
            killed.append(zygote.children()[-1].pid)
            os.kill(killed[0], signal.SIGKILL)

    story = live(stormy("parameter_server", []), launcher=forge, watch=kill)
    survived(story)
    assert len(story.of(NodeLost)) == 1 and len(story.of(NodeReturned)) == 1


def test_the_policy_deepedge_starts_everybody_again(forge: Forge) -> None:
    job = stormy("parameter_server", [fail_at("w-2", 0.3, back_after_s=0.1)])
    story = live(Job(**{f: getattr(job, f) for f in job.__slots__} | {"on_failure": "deepedge"}), launcher=forge)
    survived(story)
    assert story.of(Resumed)
    assert story.strikes.count("w-2") <= 1


def test_data_comes_from_the_store_and_apps_run_beside(forge: Forge, tmp_path: Path) -> None:
    from littoral.job import load_job

    job = load_job(Path(__file__).parents[3] / "examples" / "edge-cluster" / "job.yaml")
    story = live(replace(job, accuracy=None, epochs=8), launcher=forge, folder=tmp_path)
    assert story.reason == "epochs"  # so everybody had to come to its data
    assert {event.node for event in story.of(Fetched)} == {"tx2", "nano-1", "nano-2", "nano-3"}
    assert sum(event.checked for event in story.of(AppChecked)) > 4
    assert used_spans(story.events)


def children_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def command(tmp_path: Path, *more: str) -> list[str]:
    job = Path(__file__).parents[3] / "examples" / "edge-cluster" / "job.yaml"
    return [sys.executable, "-m", "littoral", "run", str(job), "--world", "processes", "--out", str(tmp_path), *more]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_coordinator_that_is_killed_and_the_run_can_go_on(
    how: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(command(tmp_path), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 90
        while not list(tmp_path.glob("*/checkpoint.safetensors")) and process.poll() is None:
            assert time.monotonic() < deadline, "no checkpoint within 90 s"
            time.sleep(0.02)
        family = children_of(process.pid) if process.poll() is None else []
        process.send_signal(how)
        process.wait(20)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    (folder,) = [path.parent for path in tmp_path.glob("*/journal.jsonl")]
    if not (folder / "result.json").exists():
        again = [sys.executable, "-m", "littoral", "run", "--resume", str(folder), "--json"]
        done = subprocess.run(again, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        assert '"reason": "target"' in done.stdout or '"reason": "epochs"' in done.stdout
