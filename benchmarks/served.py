"""A manager as a process of its own, to be killed, and what benchmarks of it send: digits and small jobs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from numpy.typing import NDArray

from littoral.manager.address import Address, read_address
from littoral.tasks.digits import Digits

BINARY = {"Content-Type": "application/octet-stream"}
CONTINUUM: dict[str, Any] = {
    "sites": [{"name": "bench"}],
    "devices": [{"name": "w-1", "count": 2, "site": "bench", "speed": "8 GFLOP/s", "memory": "2 GiB"}],
    "links": [{"between": ["bench", "bench"], "bandwidth": "1 Gbit/s", "latency": "0.2 ms"}],
}
JOB: dict[str, Any] = {"continuum": "bench", "strategy": "allreduce", "planner": "fair"}


@dataclass
class Served:
    """``littoral serve`` on a folder; ``log`` keeps what it says."""

    data: Path
    log: Path
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    said: list[str] = field(default_factory=list)

    def start(self) -> Address:
        """Start it and wait until it serves."""
        command = [sys.executable, "-m", "littoral", "serve", "--data", str(self.data), "--port", "0", *self.options]
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while f"serving {self.data} at".encode() not in self.log.read_bytes()[began:]:
            if self.process.poll() is not None:
                raise SystemExit(f"the manager ended at its start: {self.log.read_text()[began:]}")
            psutil.Process().cpu_percent(0.05)
        address = read_address(self.data)
        assert address is not None
        return address

    def family(self) -> list[psutil.Process]:
        """The manager and all that it has started."""
        assert self.process is not None
        try:
            manager = psutil.Process(self.process.pid)
            return [manager, *manager.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self, *, everybody: bool) -> None:
        """``kill -9`` of the manager, and of all its processes at once if a power cut is meant."""
        assert self.process is not None
        victims = self.family() if everybody else []
        self.process.kill()
        for victim in victims:
            try:
                victim.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def stop(self) -> int:
        """End it in order; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(120)


def client_of(address: Address, timeout_s: float = 60.0) -> httpx.Client:
    """A plain client: no retries, no manners."""
    headers = {"Authorization": f"Bearer {address.token}"}
    return httpx.Client(base_url=address.url, headers=headers, timeout=timeout_s, trust_env=False)


def ok(answer: httpx.Response) -> Any:
    """The answer, which must be a good one."""
    assert answer.status_code < 300, (answer.request.method, answer.request.url.path, answer.status_code, answer.text)
    return answer.json() if answer.content else None


def model(name: str, *, epochs: int, world: str = "simulated", **changes: Any) -> dict[str, Any]:
    """A model of digits whose updates take seconds."""
    job = {**JOB, "target": {"epochs": epochs}}
    training = {"least_samples": 50, "window": 400, "job": job, "options": {"world": world}}
    return {
        "name": name, "task": "littoral.tasks.digits", "gate": {"least_samples": 20, "margin": -1.0},
        "training": training, **changes,
    }  # fmt: skip


class Stream:
    """Digits in random order, for ever."""

    def __init__(self, seed: int) -> None:
        (x, y), _ = Digits().load()
        self._x, self._y, self._rng = x, y, np.random.default_rng(seed)

    def take(self, count: int) -> tuple[NDArray[np.float32], list[int]]:
        """So many, with their labels."""
        index = self._rng.integers(len(self._x), size=count)
        return self._x[index], [int(label) for label in self._y[index]]
