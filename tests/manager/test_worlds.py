"""Runs in the lab and on a Ray cluster, under a manager that is killed in the middle and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from given import CONTINUUM, job, until
from test_serve import CLEAN, client_of, process

from littoral.manager.jobs import RunOptions
from littoral.manager.runs import ENDED
from littoral.worlds.lab.parts import missing_parts

DEVICES = {key: part for key, part in CONTINUUM.items() if key != "stores"}
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'littoral[ray]'")


@contextmanager
def one_machine_cluster() -> Iterator[str]:
    """A Ray head that stands for all devices; its address."""
    ray = shutil.which("ray", path=Path(sys.executable).parent)
    assert ray is not None
    host = f"127.{64 + os.getpid() % 64}.1.1"
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="lr", dir="/tmp"))  # short: Ray puts sockets there
    command = [
        ray, "start", "--head", f"--port={port}", f"--node-ip-address={host}", "--include-dashboard=false", "--block",
        "--num-cpus=2", "--object-store-memory=100000000", f"--temp-dir={folder}", "--disable-usage-stats",
        '--resources={"device:hub": 1, "device:w-1": 1, "device:w-2": 1}',
    ]  # fmt: skip
    with (folder / "ray.log").open("wb") as log:
        head = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"XDG_CACHE_HOME": str(folder)})
    try:
        until(lambda: "Ray runtime started" in (folder / "ray.log").read_text())
        yield f"{host}:{port}"
    finally:
        head.terminate()
        head.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def finishes_though_killed(folder: Path, options: RunOptions, *serve: str) -> None:
    with process(folder, "--no-page", *serve) as server, client_of(folder) as client:
        client.put_continuum("bench", DEVICES)
        client.submit(job(target={"epochs": 60}), options)
        until(lambda: client.run(1).state in ENDED or ((seen := client.run(1).progress) and seen.epochs > 2))
        assert client.run(1).state not in ENDED, client.log(1)
        server.kill()
    with process(folder, "--no-page", *serve) as server, client_of(folder) as client:
        until(lambda: client.run(1).state in ENDED)
        run = client.run(1)
        assert (run.state, run.reason, run.attempts, run.deaths) == ("finished", "epochs", 2, 0), client.log(1)
        assert client.result(1)["samples"] == 60 * 1437
        kinds = [event.kind for event in client.events(kind="run.").items]
        assert kinds.count("run.resumed") == 1 and kinds.count("run.finished") == 1
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@pytest.mark.long
def test_a_run_in_the_lab_goes_on_after_a_kill(tmp_path: Path) -> None:
    if missing := missing_parts():
        pytest.skip(f"no lab here: {'; '.join(missing)}")
    finishes_though_killed(tmp_path, RunOptions(lab=True))


@pytest.mark.long
@needs_ray
def test_a_run_on_a_ray_cluster_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setitem(CLEAN, "RAY_AUTH_MODE", "disabled")
    with one_machine_cluster() as address:
        finishes_though_killed(tmp_path, RunOptions(world="ray"), "--ray-address", address)
