"""The published effects, each in its paper's own setting: our ratio beside the published one.

    python benchmarks/papers.py run --data FOLDER [--papers gaia,hop] [--jobs N] [--out FILE]
    python benchmarks/papers.py table [--out FILE]

Simulated, with real gradients: Fashion-MNIST (12,000 samples), LeNet of 107,786 parameters (431 kB), three seeds, time
to a test accuracy. Where a paper trained a larger model, links are slower by the ratio of the sizes, so that our vector
takes as long on them as its model did on its own: the share of communication is the paper's, the learning is ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.load import load_continuum
from littoral.continuum.signal import Constant, Scaled
from littoral.job import Fault, Job
from trials import Row, at_time, follow, known, perform, reached

ROOT = Path(__file__).parent.parent
SEEDS = (0, 1, 2)
SAMPLES, TARGET, MOST_EPOCHS = 12_000, 0.76, 8
OURS = 431e3  # bytes of our vector


def cluster(
    machines: int, each: int, *, step_s: float, rate: float, inside: float, slow: dict[int, float] | None = None
) -> Continuum:
    """``machines`` sites of ``each`` workers; a step of 32 samples takes ``step_s``, of the slow ones longer."""
    devices = []
    for i in range(machines * each):
        seconds = step_s * (slow or {}).get(i, 1.0) / 32
        devices.append(Device(name=f"w-{i + 1}", site=f"m-{i // each + 1}", memory_bytes=64e9,
                              step=StepTime(seconds_per_sample=seconds)))  # fmt: skip
    sites = tuple(Site(name=f"m-{i + 1}") for i in range(machines))
    near, far = Constant(inside), Constant(rate)
    links = [Link(a=s.name, b=s.name, forward=near, backward=near, latency_s=5e-5) for s in sites]
    links += [
        Link(a=a.name, b=b.name, forward=far, backward=far, latency_s=2e-4)
        for i, a in enumerate(sites)
        for b in sites[i + 1 :]
    ]
    ports = tuple(replace(d, uplink=far, downlink=far) for d in devices) if each == 1 else tuple(devices)
    return Continuum(name="cluster", sites=sites, devices=ports, links=tuple(links))


def slower(continuum: Continuum, factor: float) -> Continuum:
    """The same with slower links."""
    links = tuple(
        replace(link, forward=Scaled(link.forward, factor), backward=Scaled(link.backward, factor))
        for link in continuum.links
    )
    return replace(continuum, links=links)


def job(continuum: Continuum, strategy: str, folder: str, seed: int, parameters: dict[str, Any], **more: Any) -> Job:
    """A run to the target."""
    given: dict[str, Any] = {
        "planner": "fair", "epochs": MOST_EPOCHS, "accuracy": TARGET, "batch": 32, "evaluate_every": 0.1, **more,
    }  # fmt: skip
    return Job(
        name="paper", continuum=continuum, task="littoral.tasks.fashion_mnist", strategy=strategy,
        task_options={"folder": folder, "samples": SAMPLES}, parameters=parameters, seed=seed, **given,
    )  # fmt: skip


# -- one setting per paper ------------------------------------------------------------------------------------------


def gaia(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """Eleven regions; GoogLeNet has 27 MB. On ``lan`` all machines are in one data centre."""
    regions = load_continuum(ROOT / "examples" / "eleven-regions" / "continuum.yaml")
    if setting == "lan":
        rate = Constant(125e6)
        devices = tuple(replace(device, site="lan") for device in regions.devices)
        link = Link(a="lan", b="lan", forward=rate, backward=rate, latency_s=1e-4)
        regions = Continuum(name="lan", sites=(Site(name="lan"),), devices=devices, links=(link,))
    return job(slower(regions, OURS / 27e6), strategy, folder, seed, parameters, planner="proportional")


def prague(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """4 x 4 GPUs, 7 GB/s between machines; VGG-16 has 60 MB; with ``2`` or ``5`` one worker is that much slower."""
    scale = OURS / 60e6
    machines = cluster(4, 4, step_s=0.1, rate=7e9 * scale, inside=10e9 * scale, slow={6: float(setting)})
    return job(machines, strategy, folder, seed, parameters)


def hop(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """16 CPU machines on 1 Gbit/s; VGG-11 has 37 MB; steps of a second, at random or always slower on one of them."""
    step_s = 1.0
    slow = {5: 4.0} if setting == "deterministic" else None
    machines = cluster(16, 1, step_s=step_s, rate=125e6 * OURS / 37e6, inside=1e9, slow=slow)
    return job(machines, strategy, folder, seed, parameters, faults=_hiccups(seed, step_s) if slow is None else ())


def _hiccups(seed: int, step_s: float) -> tuple[Fault, ...]:
    """Each worker's iterations take six times as long with probability 1/16."""
    dice, faults = random.Random(f"hiccups/{seed}"), []
    for i in range(16):
        at = 0.0
        while at < 400.0:
            at += step_s * (1 + int(dice.expovariate(1 / 16)))
            faults.append(Fault(at_s=at, kind="slow-device", node=f"w-{i + 1}", seconds=6 * step_s, factor=1 / 6))
            at += 6 * step_s
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def dlion(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """Six micro-clouds, a model of 5 MB; ``a``: strong processors have strong links, ``b``: weak ones."""
    clouds = load_continuum(ROOT / "examples" / "micro-clouds" / "continuum.yaml")
    if setting == "b":
        mirror = dict(zip("abcdef", "fedcba", strict=True))
        devices = tuple(replace(device, site=f"cloud-{mirror[device.name]}") for device in clouds.devices)
        clouds = replace(clouds, devices=devices)
    own_batches = strategy != "dlion"
    return job(slower(clouds, OURS / 5e6), strategy, folder, seed, parameters,
               planner="fair" if own_batches else "proportional")  # fmt: skip


def diloco(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """Eight equal workers; bytes to the same accuracy."""
    machines = cluster(8, 1, step_s=0.1, rate=1e6, inside=1e9)
    return job(machines, strategy, folder, seed, parameters, epochs=3 * MOST_EPOCHS)


def adpsgd(setting: str, strategy: str, parameters: dict[str, Any], folder: str, seed: int) -> Job:
    """16 workers, ResNet-50 of 100 MB on 10 Gbit/s shared with others; one port has 1/``setting`` of its rate."""
    machines = cluster(16, 1, step_s=0.35, rate=1.25e9 * OURS / 100e6, inside=1e9)
    last = machines.devices[-1]
    rate = Constant(1.25e9 * OURS / 100e6 / float(setting))
    devices = (*machines.devices[:-1], replace(last, uplink=rate, downlink=rate))
    return job(replace(machines, devices=devices), strategy, folder, seed, parameters)


PS_BSP: tuple[str, dict[str, Any]] = ("parameter_server", {"mode": "bsp"})
SHARDED: tuple[str, dict[str, Any]] = ("parameter_server", {"mode": "bsp", "servers": 11})
PAPERS: dict[str, tuple[Any, list[str], list[tuple[str, dict[str, Any]]]]] = {
    "gaia": (gaia, ["wan", "lan"], [SHARDED, ("gaia", {}), ("gaia", {"threshold": 0.1}), ("gaia", {"hubs": 3})]),
    "prague": (prague, ["1", "2", "5"],
               [("allreduce", {}), PS_BSP, ("adpsgd", {}), ("prague", {}), ("prague", {"generator": "random"}),
                ("prague", {"generator": "static"})]),
    "hop": (hop, ["random", "deterministic"],
            [("hop", {}), ("hop", {"backups": 1}), ("hop", {"staleness": 5}), ("hop", {"backups": 1, "max_jump": 10}),
             PS_BSP]),
    "dlion": (dlion, ["a", "b"],
              [("dlion", {}), ("gaia", {}), ("hop", {"backups": 1, "topology": "complete"}),
               ("hop", {"staleness": 5, "topology": "complete"}), ("allreduce", {})]),
    "diloco": (diloco, ["equal"],
               [("allreduce", {}), ("diloco", {}), ("diloco", {"period": 100}), ("diloco", {"codec": "fp4"}),
                ("local_sgd", {"period": 30})]),
    "adpsgd": (adpsgd, ["1", "10", "100"], [("allreduce", {}), ("adpsgd", {}), ("dpsgd", {})]),
}  # fmt: skip


def trial(key: str, folder: str) -> Row:
    """One run, from its key."""
    paper, setting, strategy, parameters, seed = json.loads(key)
    return follow(PAPERS[paper][0](setting, strategy, parameters, folder, seed))


def keys_of(papers: Sequence[str]) -> list[str]:
    """Everything to run, seed by seed."""
    return [
        json.dumps([paper, setting, strategy, parameters, seed])
        for seed in SEEDS
        for paper in papers
        for setting in PAPERS[paper][1]
        for strategy, parameters in PAPERS[paper][2]
        if not (setting == "lan" and strategy == "gaia")
    ]


def table(papers: Sequence[str], rows: dict[str, Row]) -> str:
    """Markdown: per paper and setting, time to the target and the ratio to the first strategy of the list."""
    lines = ["| paper, setting | strategy | seeds | time to target | x first | accuracy at first's time | bytes |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for paper in papers:
        for setting in PAPERS[paper][1]:
            base: float | None = None
            for strategy, parameters in PAPERS[paper][2]:
                found = [rows.get(json.dumps([paper, setting, strategy, parameters, seed])) for seed in SEEDS]
                runs = [row for row in found if row is not None and row.get("curve")]
                points = [point for row in runs if (point := reached(row, TARGET))]
                if not runs:
                    continue
                times = [point[0] for point in points]
                mean = statistics.mean(times) if len(points) == len(runs) else None
                base = base or mean
                ratio = f"{base / mean:.2f}" if base and mean else "-"
                spread = f"{mean:.1f} s ({min(times):.1f}-{max(times):.1f})" if mean else "not reached by all"
                then = statistics.mean(at_time(row, base) for row in runs) if base else 0.0
                traffic = statistics.mean(point[6] for point in points) / 1e6 if points else 0.0
                label = " ".join([strategy, *(f"{key}={value}" for key, value in parameters.items())])
                lines.append(f"| {paper}, {setting} | {label} | {len(points)}/{len(runs)} | {spread} | {ratio} | "
                             f"{then:.3f} | {traffic:.0f} MB |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=["run", "table"])
    parser.add_argument("--data", help="folder of Fashion-MNIST")
    parser.add_argument("--papers", default=",".join(PAPERS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after this time")
    parser.add_argument("--out", type=Path, default=Path("papers.jsonl"))
    asked = parser.parse_args()
    papers = asked.papers.split(",")
    if asked.act == "run":
        os.environ["OMP_NUM_THREADS"] = "1"
        deadline = time.time() + 60 * asked.minutes
        perform(partial(trial, folder=asked.data), keys_of(papers), asked.out, jobs=asked.jobs, deadline=deadline)
    print(table(papers, known(asked.out)))


if __name__ == "__main__":
    main()
