"""What tests of the life cycle share: a life cycle over a folder, a stream of digits that drifts, a real trainer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from littoral.job import load_job
from littoral.manager.database import Database
from littoral.manager.gate import Gate
from littoral.manager.inputs import Kind
from littoral.manager.lifecycle import LifeCycle
from littoral.manager.model_records import Model, Training
from littoral.manager.sample_rows import Batch
from littoral.manager.samples import Samples
from littoral.manager.stores import Retention
from littoral.manager.tables import MIGRATIONS
from littoral.manager.trainer import Standing
from littoral.manager.triggers import Cost
from littoral.run import Options, run_job
from littoral.tasks.digits import Digits

DIGITS = "littoral.tasks.digits"
KIND = Kind(shape=(1, 8, 8), classes=10)
CONTINUUM = {
    "name": "hall",
    "sites": [{"name": "hall"}],
    "devices": [{"name": f"pi-{i}", "site": "hall", "speed": "5 GFLOP/s", "memory": "2 GiB"} for i in (1, 2)],
    "links": [{"between": ["hall", "hall"], "bandwidth": "1 Gbit/s", "latency": "0.2 ms"}],
}
JOB = {"target": {"epochs": 12}, "strategy": "allreduce", "planner": "proportional"}


@dataclass
class Clock:
    """Time that passes when told."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class HereTrainer:
    """Trains for real, in virtual time, in a thread of this process; one folder per key tells what is done."""

    folder: Path
    fail: int = 0  # so many first runs end badly
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    threads: dict[str, threading.Thread] = field(default_factory=dict)

    def start(self, key: str, job: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        folder = self.folder / key
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "given.json").write_text(json.dumps(job))
        return key

    def state(self, run: str) -> Standing:
        folder = self.folder / run
        result = folder / "result.json"
        if result.exists():
            told = json.loads(result.read_text())
            return Standing(state="finished", folder=folder, cost=Cost(time_s=told["time_s"], usd=told["cost_usd"]))
        if (folder / "failed").exists():
            return Standing(state="failed", folder=folder, reason="asked to fail")
        if run not in self.threads:
            self.started.append(run)
            self.threads[run] = threading.Thread(target=self._run, args=(folder,))
            self.threads[run].start()
        return Standing(state="running", folder=folder)

    def stop(self, run: str) -> None:
        self.stopped.append(run)

    def predict(self, job: Mapping[str, Any], options: Mapping[str, Any]) -> Cost:
        return Cost(time_s=60.0, usd=1.0)

    def close(self) -> None:
        for thread in self.threads.values():
            thread.join()

    def _run(self, folder: Path) -> None:
        if self.fail:
            self.fail -= 1
            (folder / "failed").touch()
            return
        job = json.loads((folder / "given.json").read_text())
        (folder / "continuum.yaml").write_text(yaml.safe_dump(CONTINUUM))
        (folder / "job.yaml").write_text(yaml.safe_dump({**job, "continuum": "continuum.yaml"}))
        run_job(load_job(folder / "job.yaml"), folder, Options(reference=False, detail=False))


@dataclass
class Life:
    """A life cycle that a test can look into."""

    cycle: LifeCycle
    database: Database
    trainer: HereTrainer
    clock: Clock
    told: list[tuple[str, str]]

    def model(self, name: str = "digits", *, retention: Retention = Retention(), gate: Gate = Gate(least_samples=20),
              **training: Any) -> Model:  # fmt: skip
        """A model of digits with its store; its first update trains from scratch."""
        rules = Training(**{"least_samples": 50, "job": JOB, **training})
        with self.database.write() as connection:
            self.cycle.stores.create(connection, f"{name}-store", KIND, retention, self.clock())
            return self.cycle.registry.create(
                connection, name, DIGITS, {}, store=f"{name}-store", gate=gate, training=rules, now=self.clock()
            )

    def update(self, name: str = "digits", why: str = "asked") -> int:
        """Ask for an update and see it through; its number."""
        with self.database.write() as connection:
            number = self.cycle.updates.request(connection, name, why, self.clock()).number
        self.settle()
        return number

    def settle(self, most: int = 3000) -> None:
        """Step until no update is under way."""
        for _ in range(most):
            self.cycle.step(self.clock())
            if not self.cycle.updates.unfinished():
                return
            for thread in list(self.trainer.threads.values()):
                thread.join()
        raise AssertionError(f"still under way: {self.cycle.updates.unfinished()}")


@contextmanager
def alive(folder: Path, clock: Clock | None = None) -> Iterator[Life]:
    """A life cycle over a folder, new or not; closed in the end."""
    clock, told = clock or Clock(), []
    database, trainer = Database(folder, MIGRATIONS), HereTrainer(folder / "runs")

    def tell(connection: object, kind: str, subject: str, data: Mapping[str, Any]) -> None:
        told.append((kind, subject))

    cycle = LifeCycle(database, folder, trainer, now=clock, tell=tell)
    cycle.tidy()
    try:
        yield Life(cycle, database, trainer, clock, told)
    finally:
        trainer.close()
        cycle.stop()
        database.close()


class Stream:
    """Digits in random order, for ever; drifted ones are inverted: ink where paper was."""

    def __init__(self, seed: int = 0) -> None:
        (x, y), (test_x, test_y) = Digits().load()
        self._x, self._y = np.concatenate([x, test_x]), np.concatenate([y, test_y])
        self._rng = np.random.default_rng(seed)

    def take(self, count: int, *, drifted: bool = False) -> tuple[NDArray[np.float32], list[int]]:
        """So many digits with their labels."""
        index = self._rng.integers(len(self._x), size=count)
        x = 1 - self._x[index] if drifted else self._x[index]
        return x, [int(label) for label in self._y[index]]


def ingest(samples: Samples, store: str, x: NDArray[Any], actual: list[int], predicted: list[int] | None = None,
           version: int | None = None) -> None:  # fmt: skip
    """Add samples whose truth is known."""
    samples.add(
        store, Batch(inputs=x, actual=actual, predicted=predicted or (), versions=[version] * len(x) if version else ())
    )
