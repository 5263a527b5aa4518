"""Whole runs on a real Ray cluster, and the launcher that starts their processes there."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from clouds import DEVICES, Cloud, all_gone, eventually, free_port, needs_ray, pids, raylet_ip

from littoral.continuum.app import App, Store
from littoral.errors import InputError, RunFailed
from littoral.events import Event, Fetched, NodeLost, NodeReturned, Used
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.profiling.bench import Bench, Windows
from littoral.profiling.design import Point
from littoral.profiling.ray_post import RayPost
from littoral.profiling.stressors import Stress
from littoral.strategies.strategy import REGISTRY
from littoral.testing import Story, check_strategy, live, small_continuum, small_job
from littoral.worlds.lab.places import Place
from littoral.worlds.processes.boot import Boot
from littoral.worlds.ray.cluster import Cluster, RayGround, join, ray_module
from littoral.worlds.ray.launch import RayLauncher
from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.keys import new_keys

pytestmark = needs_ray


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """One for all tests here: it takes longer to start than most of them."""
    pid = os.getpid()
    network = f"127.{pid >> 8 & 127}.{pid & 255}"
    # A short path: Ray puts sockets there, whose names may have 107 characters.
    made = Cloud(Path(tempfile.mkdtemp(prefix="lr", dir="/tmp")), network, free_port(f"{network}.1"), [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        try:
            made.start(
                "hub", "--head", f"--port={made.port}", "--include-dashboard=false", '--resources={"device:depot": 1}'
            )
            for device in DEVICES[1:]:
                made.start(device, f"--address={made.address}")
            yield made
        finally:
            left = made.stop()
    assert not left, f"the cluster left {left} behind"


def run(cloud: Cloud, folder: Path, **more: Any) -> Callable[[Any], Story]:
    return lambda job: live(job, world="ray", address=cloud.address, folder=folder, **more)


def test_strategies_keep_their_contract_on_the_devices_of_the_plan(cloud: Cloud, tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    def look(event: Event) -> None:
        if isinstance(event, Used) and not seen:
            seen.update({node: raylet_ip(pids(tmp_path, node)[0]) for node in ("w-1", "w-2")})

    check_strategy("allreduce", run=run(cloud, tmp_path, watch=look), workers=2)
    assert seen == {"w-1": cloud.ip("w-1"), "w-2": cloud.ip("w-2")}
    all_gone(tmp_path)


@pytest.mark.parametrize("strategy", sorted(set(REGISTRY) - {"allreduce", "parameter_server"}))
def test_every_strategy_keeps_its_contract(strategy: str, cloud: Cloud, tmp_path: Path) -> None:
    check_strategy(strategy, run=run(cloud, tmp_path), workers=2)


def test_a_machine_may_be_several_devices_and_data_comes_from_the_store(cloud: Cloud, tmp_path: Path) -> None:
    """The hub is also the device 'depot', which only a resource says, and the store is there."""
    plain = small_continuum((100.0, 50.0))
    depot = replace(plain.devices[-1], name="depot")
    described = replace(
        plain, devices=(*plain.devices, depot), stores=(Store(name="disk", site="lab", device="depot"),)
    )
    where: dict[str, str] = {}
    kept = cloud.folder / "cache" / "littoral" / "pantry"
    fetched: list[Path] = []

    def look(event: Event) -> None:
        if isinstance(event, Used) and not where:
            fetched.extend(kept.iterdir())
            where.update({node: raylet_ip(pids(tmp_path, node)[0]) for node in ("disk", "ps-1")})

    story = check_strategy("parameter_server", run=run(cloud, tmp_path, watch=look), continuum=described)
    assert where == {"disk": cloud.ip("hub"), "ps-1": cloud.ip("hub")}
    assert {event.node for event in story.of(Fetched)} == {"w-1", "w-2"}
    assert fetched
    eventually(lambda: not list(kept.glob("*")))  # what was fetched is not left there
    all_gone(tmp_path)


@pytest.mark.parametrize(("strategy", "victim"), [("allreduce", "w-2"), ("parameter_server", "ps-1")])
def test_a_process_killed_from_outside_is_replaced(
    strategy: str, victim: str, cloud: Cloud, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []

    def kill(event: Event) -> None:
        if isinstance(event, Used) and not killed:
            killed.extend(pids(tmp_path, victim))
            os.kill(killed[0], signal.SIGKILL)

    story = run(cloud, tmp_path, watch=kill)(small_job(workers=2, strategy=strategy, epochs=12))
    assert story.reason == "epochs" and story.contradictions() == []
    assert (victim, "died (its worker process has died)") in [(lost.node, lost.reason) for lost in story.of(NodeLost)]
    if victim == "ps-1":  # without which nobody can go on
        assert victim in [back.node for back in story.of(NodeReturned)]
        assert len(pids(tmp_path, victim)) > 1
    assert capfd.readouterr().out == ""  # what Ray has to say about it does not mix with results
    all_gone(tmp_path)


def test_a_device_without_a_machine_is_told_before_anything_starts(cloud: Cloud, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(cloud, tmp_path)(small_job(workers=4))
    text = str(caught.value)
    assert "no Ray node is w-3 or w-4" in text and f"w-1 at {cloud.ip('w-1')}" in text
    assert f"on w-4 run: ray start --address={cloud.address} --labels=littoral.device=w-4" in text
    assert not (tmp_path / "logs").exists()


# -- the launcher -----------------------------------------------------------------------------------------------


def boot(kind: str) -> Boot:
    """A store's process, for it needs little, with a coordinator that nobody is."""
    job = small_job(workers=1)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    return Boot(
        run="test", node="it", kind=kind, place=Place("0.0.0.0"), keys=new_keys(), peers=(), clock_zero=0.0, seed=0,
        coordinator=Peer("coordinator", "tcp://127.0.0.1:9", new_keys().public), plan=plan, task=job.task,
        task_options=job.task_options, recipe=job.recipe, paths=("",), pantry="", largest_message=1 << 20,
    )  # fmt: skip


def test_processes_are_paused_continued_killed_and_their_ends_told(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    ends: list[tuple[str, str]] = []

    async def until(fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not fact():
                await asyncio.sleep(0.02)

    async def story(cluster: Cluster) -> None:
        launcher = RayLauncher(cluster)
        launcher.attach(lambda node, how: ends.append((node, how)), tmp_path / "logs")
        launcher.start("bad", "w-2", boot("nonsense"))
        launcher.start("it", "w-1", boot("store"))
        await until(lambda: bool(pids(tmp_path, "it")))
        process = psutil.Process(pids(tmp_path, "it")[0])
        assert process in cloud.processes()  # so the last check of all, for what is left behind, would see it
        launcher.signal("it", signal.SIGSTOP)
        await until(lambda: process.status() == psutil.STATUS_STOPPED)
        launcher.signal("it", signal.SIGCONT)
        await until(lambda: process.status() != psutil.STATUS_STOPPED)
        launcher.signal("it", signal.SIGKILL)
        await until(lambda: len(ends) == 2)
        await until(lambda: not process.is_running())
        launcher.start("it", "w-2", boot("store"))
        await until(lambda: len(pids(tmp_path, "it")) == 2)
        await launcher.detach()

    with join(cloud.address, ["w-1", "w-2"]) as cluster:
        asyncio.run(story(cluster))
        all_gone(tmp_path)
    assert sorted(ends) == [("bad", "failed with KeyError: 'nonsense'"), ("it", "died (it was killed by `ray.kill`)")]
    assert "KeyError" in (tmp_path / "logs" / "bad.log").read_text()
    assert not ray_module().is_initialized()


def test_a_point_of_a_profile_is_measured_on_its_machines(cloud: Cloud) -> None:
    app = App(name="busy", on=("w-1",), period_s=0.1, deadline_s=0.1, work_s=0.01)
    job = small_job(continuum=replace(small_continuum((100.0, 100.0)), apps=(app,)))
    point = Point(number=3, stress={"w-1": Stress(cpu=0.2), "w-2": Stress(), "hub": Stress()},
                  batches={"w-1": 4, "w-2": 8})  # fmt: skip
    short = Windows(settle_s=0.5, before_s=0.6, skip_s=0.2, during_s=3.0)  # others may have the cores for a second
    with join(cloud.address, DEVICES[:3]) as cluster:
        kinds, ground = {"w-1": "small", "w-2": "small"}, RayGround(cluster=cluster)
        with Bench(job, kinds, "hub", ground=ground, launcher=RayLauncher(cluster), windows=short) as bench:
            measured = bench.measure(point)
    assert {row.device: row.batch for row in measured.training} == {"w-1": 4, "w-2": 8}
    assert all(row.compute_s > 0 and row.update_s > 0 and row.before.cpu > 0 for row in measured.training)
    assert [(row.app, row.device, row.beside) for row in measured.apps] == [("busy", "w-1", 0), ("busy", "w-1", 4)]
    assert all(row.mean_s >= 0.01 for row in measured.apps)


def test_a_post_that_dies_is_named(cloud: Cloud) -> None:
    device = small_continuum((100.0,)).device("w-1")
    with join(cloud.address, ["w-1"]) as cluster:
        post = RayPost(cluster, device, [], 0, 0.0)
        with pytest.raises(RunFailed, match="w-1 is out of reach"), post:
            ray_module().kill(post._actor)
            for _ in range(200):  # dying takes a moment
                post._ask("now")
                time.sleep(0.05)
