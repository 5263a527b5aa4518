"""Littoral beside PyTorch DDP (gloo) on four emulated devices: same hosts, same task, interleaved repeats.

    python benchmarks/lab.py            the ratios, five repeats, and accuracy (about 50 minutes)
    python benchmarks/lab.py --demo     one repeat of the mixed links, and training to a target (about 4 minutes)

Every lab is measured first (step times, what a message costs), as `littoral fidelity` does, and our plans are made
from that. Needs root (namespaces, quotas). Fashion-MNIST is looked for in data/fashion_mnist,
../shared/data/fashion_mnist or --data; without it, digits on a small LeNet stand in.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddp import run_ddp
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.errors import LittoralError
from littoral.events import Evaluated, Used
from littoral.fidelity import measured_continuum
from littoral.job import Job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.supervisor import Supervisor
from littoral.testing import MemoryKeeper
from littoral.worlds.lab.lab import Lab
from littoral.worlds.opening import open_live
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Forge

SHARES = (0.8, 0.4, 0.4, 0.2)
EQUAL = (0.45,) * 4
MBIT = 1e6 / 8
FAST = (1000.0,) * 4
MIXED = (1000.0, 100.0, 100.0, 20.0)
CORE_FLOPS = 19e9  # what the LeNet sustains on one core here; only ratios and the exchange's share depend on it
WARMUP = 5  # steps, or as many samples, that nobody is timed for
STEP_S = 1.2e-3  # of a step on one core, whatever its batch


def continuum(shares: tuple[float, ...], ports: tuple[float, ...]) -> Continuum:
    """One site with a device per CPU share, each with its own port in Mbit/s."""
    devices = tuple(
        Device(
            name=f"d-{i + 1}", site="bench", step=StepTime(fixed_seconds=STEP_S / share, flops=CORE_FLOPS * share),
            memory_bytes=4e9, uplink=Constant(port * MBIT), downlink=Constant(port * MBIT), cpu=share,
        )
        for i, (share, port) in enumerate(zip(shares, ports, strict=True))
    )  # fmt: skip
    inner = Link(a="bench", b="bench", forward=Constant(1.25e9), backward=Constant(1.25e9), latency_s=0.2e-3)
    return Continuum(name="bench", sites=(Site(name="bench"),), devices=devices, links=(inner,))


@contextmanager
def lab(
    shares: tuple[float, ...], ports: tuple[float, ...], task: str, options: dict[str, Any]
) -> Iterator[tuple[Continuum, Lab]]:
    """A lab, and its continuum as measured in it with a task."""
    described = continuum(shares, ports)
    with Lab.up(described) as up:
        job = Job(name="probe", continuum=described, task=task, task_options=options, epochs=1, strategy="allreduce")
        yield measured_continuum(job, up, seconds=2.0), up


def ours(
    described: Continuum, up: Lab, forge: Forge, task: str, options: dict[str, Any], *, strategy: str, planner: str,
    epochs: int, seed: int, accuracy: float | None = None, evaluate_every: float = 1e6, batch: int | None = None,
    wire: str = "float32", **parameters: Any,
) -> dict[str, Any]:  # fmt: skip
    """One run in the lab: samples/s from when the first are used, as many as DDP warms up with, to the last."""
    job = Job(
        name="bench", continuum=described, task=task, task_options=options, epochs=epochs, strategy=strategy,
        parameters=parameters, planner=planner, servers=("d-1",), workers=described.device_names, seed=seed,
        accuracy=accuracy, evaluate_every=evaluate_every, batch=batch, wire=wire,
    )  # fmt: skip
    made = load_task(task, options)
    plan = make_plan(job, made.footprint(), made.recipe)
    up.set_home((plan.servers or plan.workers)[0].device)
    supervisor = Supervisor(plan, target=accuracy)
    samples, last, verdicts = 0, 0.0, []
    before, began = 0, 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        open_live(
            job, made, plan, MemoryKeeper(), seed=seed, launcher=forge, ground=Ground(up), folder=Path(folder)
        ) as session,
    ):
        for event in session.events():
            if isinstance(event, Used):
                samples, last = samples + event.samples, max(last, event.t)
                if samples <= WARMUP * 128:
                    before, began = samples, last
            elif isinstance(event, Evaluated):
                verdicts.append(event)
            for command in supervisor.handle(event):
                session.perform(command)
    return {
        "seconds": last, "samples": samples, "samples_per_s": (samples - before) / (last - began),
        "accuracy": verdicts[-1].accuracy, "batches": [worker.batch for worker in plan.workers],
    }  # fmt: skip


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def fashion(where: str | None) -> tuple[str, dict[str, Any]]:
    for folder in [where] if where else ["data/fashion_mnist", "../shared/data/fashion_mnist"]:
        if folder and Path(folder).is_dir():
            return "littoral.tasks.fashion_mnist", {"folder": str(Path(folder).resolve())}
    print("no Fashion-MNIST here: digits stand in (give its folder with --data)", file=sys.stderr)
    return "littoral.tasks.digits", {"model": "lenet"}


class Study:
    """One task, one forge, many labs."""

    def __init__(self, task: str, options: dict[str, Any], forge: Forge) -> None:
        self.task, self.options, self.forge = task, options, forge
        self.rates: dict[str, dict[str, list[float]]] = {}

    def small(self, samples: int) -> dict[str, Any]:
        return self.options | ({"samples": samples} if "fashion" in self.task else {})

    def ddp(
        self, described: Continuum, up: Lab, steps: int, batches: list[int], options: dict[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        places = [up.place(device) for device in described.device_names]
        more = {"warmup": WARMUP, **more}
        return run_ddp(places, self.task, options or self.options, batches=batches, steps=steps, **more)

    def note(self, setting: str, who: str, account: dict[str, Any]) -> None:
        rate = account["samples_per_s"]
        self.rates.setdefault(setting, {}).setdefault(who, []).append(rate)
        batches = account.get("batches", "")
        line = f"  {setting:<8} {who:<34} {rate:8.0f} samples/s in {account['seconds']:.1f} s {batches}"
        print(line, file=sys.stderr, flush=True)

    def repeat(self, setting: str, seed: int, rivals: int = 3) -> None:
        """Every contender once in one lab, the first so many rivals among them."""
        shares, ports, model, steps = SETTINGS[setting]
        options = self.options | {"model": model}
        with lab(shares, ports, self.task, options) as (described, up):
            for who, batches, half in RIVALS[:rivals]:
                if (setting == "equal" and batches is UNEVEN) or (setting == "heavy" and half):
                    continue
                account = self.ddp(described, up, steps, batches, options, seed=seed, half=half)
                self.note(setting, who, account)
            for who, strategy, planner, samples, parameters in CONTENDERS[setting]:
                account = ours(
                    described, up, self.forge, self.task, self.small(samples) | {"model": model}, strategy=strategy,
                    planner=planner, epochs=1, seed=seed, **parameters,
                )  # fmt: skip
                self.note(setting, who, account)

    def table(self) -> None:
        """Median and range of rates and of ratios to the DDP run of the same repeat."""
        print(f"\n{'links':<8} {'who':<34} {'samples/s':>26} {'times DDP':>22}")
        for setting, rows in self.rates.items():
            rivals = rows["DDP, equal batches"]
            for who, rates in rows.items():
                ratios = [rate / rival for rate, rival in zip(rates, rivals, strict=True)]
                print(f"{setting:<8} {who:<34} {spread(rates):>26} {spread(ratios):>22}")


SETTINGS: dict[str, tuple[tuple[float, ...], tuple[float, ...], str, int]] = {  # CPU, ports, model, steps of DDP
    "fast": (SHARES, FAST, "lenet", 60),
    "heavy": (SHARES, FAST, "resnet8", 15),
    "mixed": (SHARES, MIXED, "lenet", 20),
    "equal": (EQUAL, FAST, "lenet", 60),
}
EVEN, UNEVEN = [32] * 4, [57, 28, 28, 15]
RIVALS = [
    ("DDP, equal batches", EVEN, False),
    ("DDP, equal batches, float16", EVEN, True),
    ("DDP, unequal batches", UNEVEN, False),
]
HALF: dict[str, Any] = {"wire": "float16"}
ASYNC: dict[str, Any] = {"mode": "asp"}
CONTENDERS: dict[str, list[tuple[str, str, str, int, dict[str, Any]]]] = {
    "fast": [
        ("allreduce, unequal batches", "allreduce", "proportional", 16_000, {}),
        ("allreduce, unequal, float16", "allreduce", "proportional", 16_000, HALF),
        ("asynchronous server", "parameter_server", "proportional", 24_000, ASYNC),
        ("asynchronous server, float16", "parameter_server", "proportional", 24_000, ASYNC | HALF),
    ],
    "heavy": [
        ("allreduce, unequal batches", "allreduce", "proportional", 4_000, {}),
        ("asynchronous server", "parameter_server", "proportional", 4_000, ASYNC),
    ],
    "mixed": [
        ("allreduce, unequal, float16", "allreduce", "proportional", 6_000, HALF),
        ("asynchronous server", "parameter_server", "proportional", 24_000, ASYNC),
        ("asynchronous server, float16", "parameter_server", "proportional", 24_000, ASYNC | HALF),
    ],
    "equal": [
        ("allreduce, equal batches", "allreduce", "fair", 20_000, {}),
        ("allreduce, equal, float16", "allreduce", "fair", 20_000, HALF),
    ],
}


def compare_accuracy(study: Study, seeds: range) -> None:
    """After the same number of samples, one epoch: DDP's, and ours."""
    rows: dict[str, list[float]] = {
        "DDP, equal batches": [],
        "allreduce, unequal batches": [],
        "asynchronous server": [],
        "asynchronous server, float16": [],
    }
    samples = load_task(study.task, study.options).footprint().samples
    for seed in seeds:
        with lab(SHARES, FAST, study.task, study.options) as (described, up):
            rival = study.ddp(described, up, samples // 128, [32] * 4, seed=seed, warmup=0, evaluate=True)
            rows["DDP, equal batches"].append(rival["accuracy"])
            for who, strategy, parameters in (
                ("allreduce, unequal batches", "allreduce", {}),
                ("asynchronous server", "parameter_server", ASYNC),
                ("asynchronous server, float16", "parameter_server", ASYNC | HALF),
            ):
                account = ours(
                    described, up, study.forge, study.task, study.options, strategy=strategy, planner="proportional",
                    epochs=1, seed=seed, **parameters,
                )  # fmt: skip
                rows[who].append(account["accuracy"])
        print(
            f"  seed {seed}: " + ", ".join(f"{who} {values[-1]:.4f}" for who, values in rows.items()), file=sys.stderr
        )
    print("\naccuracy after one epoch (points against DDP)")
    base = statistics.mean(rows["DDP, equal batches"])
    for who, values in rows.items():
        print(f"  {who:<34} {statistics.mean(values):.4f} ({min(values):.4f}-{max(values):.4f})"
              f"   {100 * (statistics.mean(values) - base):+.2f}")  # fmt: skip


def demo(study: Study) -> None:
    """A short look: digits and the LeNet to a target on the mixed links, then one repeat beside DDP."""
    goals = [("littoral.tasks.digits", {}, 0.95, 20), (study.task, study.options, 0.80, 2)]
    with lab(SHARES, MIXED, study.task, study.options) as (described, up):
        for task, options, target, epochs in goals:
            account = ours(
                described, up, study.forge, task, options, strategy="parameter_server", planner="proportional",
                epochs=epochs, seed=0, accuracy=target, evaluate_every=0.05 if "fashion" in task else 0.5, **ASYNC,
            )  # fmt: skip
            print(f"{task.rpartition('.')[2]}: accuracy {account['accuracy']:.3f} (target {target}) after "
                  f"{account['seconds']:.1f} s, {account['samples']} samples; {account['batches']}")  # fmt: skip
    study.repeat("mixed", 0, rivals=1)
    study.repeat("fast", 0, rivals=1)
    study.table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3, help="of the comparison of accuracy")
    parser.add_argument("--settings", default="fast,heavy,mixed,equal")
    parser.add_argument("--no-accuracy", action="store_true")
    parser.add_argument("--data")
    arguments = parser.parse_args()
    task, options = fashion(arguments.data)
    with Forge() as forge:
        study = Study(task, options, forge)
        if arguments.demo:
            return demo(study)
        for seed in range(arguments.repeats):
            for setting in arguments.settings.split(","):
                study.repeat(setting, seed)
        study.table()
        if not arguments.no_accuracy:
            compare_accuracy(study, range(arguments.seeds))


if __name__ == "__main__":
    try:
        main()
    except LittoralError as error:
        print(f"littoral: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
