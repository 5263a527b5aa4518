"""A real Ray cluster on this machine: a head and two more nodes, each with an address of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'littoral[ray]'")
DEVICES = ("hub", "w-1", "w-2")


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
