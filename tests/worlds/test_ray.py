"""Whole runs on a real Ray cluster: a head and two more nodes on this machine, each with an address of its own."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from littoral.continuum.app import Store
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError, MissingExtra
from littoral.events import Event, Fetched, NodeLost, NodeReturned, Used
from littoral.job import load_job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.testing import Story, check_strategy, live, small_continuum, small_job
from littoral.worlds.lab.places import Place
from littoral.worlds.processes.boot import Boot
from littoral.worlds.ray.cluster import Cluster, Machine, _machine, join, ray_module, start_line
from littoral.worlds.ray.launch import RayLauncher
from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.keys import new_keys

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'littoral[ray]'")
DEVICES = ("hub", "w-1", "w-2")
GUIDE = Path(__file__).parents[2] / "docs" / "cluster.md"


# -- the cluster ------------------------------------------------------------------------------------------------


@dataclass
class Cloud:
    """What was started for these tests: ``ray start`` lines that stay in the foreground."""

    folder: Path
    network: str  # first three numbers of its addresses: another worker of pytest may have a cluster beside this one
    port: int
    nodes: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return f"{self.ip('hub')}:{self.port}"

    def ip(self, device: str) -> str:
        return f"{self.network}.{DEVICES.index(device) + 1}"

    def start(self, device: str, *more: str) -> None:
        ray = shutil.which("ray", path=Path(sys.executable).parent)
        assert ray is not None
        log = (self.folder / f"{device}.log").open("wb")
        environment = os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache"), "RAY_USAGE_STATS_ENABLED": "0"}
        with log:
            process = subprocess.Popen(
                [ray, "start", *more, f"--node-ip-address={self.ip(device)}", "--block", "--num-cpus=1",
                 "--object-store-memory=100000000", f"--temp-dir={self.folder / device}",
                 f"--labels=littoral.device={device}", "--disable-usage-stats"],
                stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
            )  # fmt: skip
        self.nodes.append(process)
        eventually(lambda: "Ray runtime started" in (self.folder / f"{device}.log").read_text(), 60)

    def processes(self) -> list[psutil.Process]:
        """All that belongs to it, workers too: they are started with its folder in their environment or arguments."""
        mark, mine = str(self.folder), []
        for process in psutil.process_iter():
            try:
                known = [*process.cmdline(), process.environ().get("XDG_CACHE_HOME", "")]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if any(mark in word for word in known):
                mine.append(process)
        return mine

    def stop(self) -> list[psutil.Process]:
        """Ends it as an administrator would; what is then still there, which is ended too."""
        for process in reversed(self.nodes):
            process.terminate()
        for process in self.nodes:
            process.wait(30)
        _, left = psutil.wait_procs(self.processes(), timeout=10)
        for process in left:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left


def eventually(fact: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def free_port(host: str) -> int:
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
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


def pids(folder: Path, node: str) -> list[int]:
    """Of a node's processes, first to last, as the run's logs tell."""
    log = folder / "logs" / f"{node}.log"
    return [int(pid) for pid in re.findall(r"process (\d+) at", log.read_text())] if log.exists() else []


def all_gone(folder: Path) -> None:
    mine = [pid for log in (folder / "logs").glob("*.log") for pid in pids(folder, log.stem)]
    assert mine
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in mine))


def raylet_ip(pid: int) -> str:
    """The address of the Ray node that a process is a child of, as the operating system tells."""
    line = " ".join(psutil.Process(pid).parent().cmdline())
    return re.search(r"--node_ip_address=(\S+)", line)[1]  # type: ignore[index]


# -- runs -------------------------------------------------------------------------------------------------------


@needs_ray
def test_strategies_keep_their_contract_on_the_devices_of_the_plan(cloud: Cloud, tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    def look(event: Event) -> None:
        if isinstance(event, Used) and not seen:
            seen.update({node: raylet_ip(pids(tmp_path, node)[0]) for node in ("w-1", "w-2")})

    check_strategy("allreduce", run=run(cloud, tmp_path, watch=look), workers=2)
    assert seen == {"w-1": cloud.ip("w-1"), "w-2": cloud.ip("w-2")}
    all_gone(tmp_path)


@needs_ray
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
    eventually(
        lambda: not list((cloud.folder / "cache").glob("littoral/pantry/*"))
    )  # what was fetched is not left there
    all_gone(tmp_path)


@needs_ray
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


@needs_ray
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


@needs_ray
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


# -- without a cluster ------------------------------------------------------------------------------------------


def test_without_ray_its_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"the ray world needs ray.*pip install 'littoral\[ray\]'"):
        run(Cloud(Path(), "127.0.0", 1, []), Path())(small_job())


@needs_ray
def test_where_no_cluster_is_nobody_waits() -> None:
    nobody = f"127.0.0.1:{free_port('127.0.0.1')}"
    with pytest.raises(InputError, match=f"no Ray cluster answers at {nobody}.*ray start --head"), join(nobody, []):
        pass
    with pytest.raises(InputError, match="no address of a Ray cluster; write HOST:PORT"), join("ray://host:10001", []):
        pass


def test_two_machines_of_one_name_are_refused() -> None:
    found = [Machine("10.0.0.1", "hub", frozenset({"CPU"})), Machine("10.0.0.2", None, frozenset({"device:hub"}))]
    with pytest.raises(InputError, match=r"2 Ray nodes say that they are hub: 10\.0\.0\.1 and 10\.0\.0\.2"):
        _machine("hub", ["hub"], found, "10.0.0.1:6379")


def test_a_name_that_cannot_be_a_label_is_a_resource() -> None:
    assert start_line("_cam", "h:1") == """ray start --address=h:1 --resources='{"device:_cam": 1}'"""


# -- the guide --------------------------------------------------------------------------------------------------


def block(title: str) -> str:
    """The block of the guide that begins with its name as a comment."""
    found = re.search(rf"    # {re.escape(title)}\n((?:    .+\n)+)", GUIDE.read_text())
    assert found is not None, title
    return re.sub(r"^    ", "", found[1], flags=re.M)


def test_the_files_of_the_guide_belong_together(tmp_path: Path) -> None:
    for name in ("continuum.yaml", "job.yaml"):
        (tmp_path / name).write_text(block(name))
    job = load_job(tmp_path / "job.yaml")
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    assert set(plan.device_of.values()) == set(job.continuum.device_names)
    assert set(re.findall(r"--labels=littoral\.device=([\w-]+)", GUIDE.read_text())) == set(job.continuum.device_names)


def test_the_kuberay_manifest_of_the_guide_is_one() -> None:
    manifest = yaml.safe_load(block("cluster.yaml"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    spec = manifest["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    labels = [group["labels"]["littoral.device"] for group in groups]
    assert set(labels) == set(parse_continuum(block("continuum.yaml")).device_names)
    for group in spec["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 1  # a name is one machine's
        assert "labels" not in group.get("rayStartParams", {})  # which KubeRay refuses
    arch = [group["template"]["spec"]["nodeSelector"]["kubernetes.io/arch"] for group in spec["workerGroupSpecs"]]
    assert sorted(arch) == ["amd64", "arm64"]


@needs_ray
def test_the_guides_ray_start_lines_use_options_that_exist() -> None:
    from ray.scripts.scripts import start

    known = {name for parameter in start.params for name in parameter.opts}
    lines = re.findall(r"^    .*ray start (.*(?:\\\n.*)*)", GUIDE.read_text(), re.M)
    assert lines
    for line in lines:
        assert set(re.findall(r"(--[a-z-]+)", line)) <= known, line
