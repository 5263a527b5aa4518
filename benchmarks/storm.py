"""Storms for real: random schedules of killed workers, servers, stores and coordinators, paused workers, cut links.

    python benchmarks/storm.py [--storms 20] [--lab]

Every storm is a job file run by the command line; a coordinator that is killed is started again with --resume, as a
user would. A storm is survived when the run ends by itself and its journal proves that every sample was used exactly
once per epoch. Printed beside: the longest gap in progress after a worker's kill (torchft reports 5.1 s, Ray Train
6.4 s for a lost worker).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import yaml

from littoral.continuum.app import Store
from littoral.continuum.write import continuum_document
from littoral.events import Event, FaultInjected, Used
from littoral.job import LINK_FAULTS, Job, job_document, load_job
from littoral.journal import read_journal
from littoral.learning.leases import prove
from littoral.testing import SETTINGS, random_faults, small_continuum, small_job, used_spans

SCALE = 0.15  # of the schedules' times, which are made for runs of half a minute
MOST_STARTS = 12


def stormy(seed: int, lab: bool) -> Job:
    """A job of some five seconds, and what goes wrong with it."""
    strategy, settings = SETTINGS[seed % len(SETTINGS)]
    policy = ("elastic", "deepedge")[seed // len(SETTINGS) % 2]
    speeds = [40.0, 40.0, 20.0, 20.0][: 3 + seed % 2]
    described = small_continuum(speeds, bandwidth=12.5e6, latency_s=0.002)
    disk = Store(name="disk", site="lab", device="hub")
    described = dataclasses.replace(described, stores=(disk,))
    if lab:
        cpu = {device.name: 0.3 for device in described.devices}
        described = dataclasses.replace(
            described, devices=tuple(dataclasses.replace(d, cpu=cpu[d.name]) for d in described.devices)
        )
    job = small_job(
        strategy=strategy,
        planner="fair",
        continuum=described,
        epochs=40,
        task={"samples": 960, "features": 64},
        **settings,
    )
    job = dataclasses.replace(job, name=f"storm-{seed}", on_failure=policy, seed=seed, evaluate_every=5.0)
    faults = random_faults(seed, job, scale=SCALE)
    kept = [fault for fault in faults if lab or fault.kind not in (*LINK_FAULTS, "slow-device")]
    return dataclasses.replace(job, faults=tuple(kept))


def run(job: Job, folder: Path, lab: bool) -> tuple[int, float]:
    """Run to the end, resuming after every kill of the coordinator; how many starts that took, and seconds."""
    folder.mkdir()
    (folder / "continuum.yaml").write_text(yaml.safe_dump(continuum_document(job.continuum)))
    (folder / "job.yaml").write_text(yaml.safe_dump(job_document(job)))
    world = ["--lab"] if lab else ["--world", "processes"]
    command = ["run", str(folder / "job.yaml"), *world, "--out", str(folder / "runs"), "--json"]
    began = time.monotonic()
    starts = 0
    while starts < MOST_STARTS:
        starts += 1
        done = subprocess.run([sys.executable, "-m", "littoral", *command], capture_output=True, text=True, timeout=180)
        if done.returncode != -9:
            break
        found = list((folder / "runs").glob("*/journal.jsonl"))
        command = ["run", "--resume", str(found[0].parent), "--json"] if found else command
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-800:]}")
    return starts, time.monotonic() - began


def gaps_after_kills(events: list[Event], job: Job) -> list[float]:
    """How long nothing was used after each kill of a worker."""
    used = [event.t for event in events if isinstance(event, Used)]
    kills = [e.t for e in events if isinstance(e, FaultInjected) and e.kind == "crash" and e.target in job.workers]
    found = []
    for kill in kills:
        window = [t for t in used if kill - 0.5 <= t <= kill + 8.0]
        if len(window) > 1:
            found.append(max(b - a for a, b in pairwise(window) if b >= kill))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storms", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--lab", action="store_true")
    arguments = parser.parse_args()
    survived, gaps = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.first, arguments.first + arguments.storms):
            job = stormy(seed, arguments.lab)
            what = ", ".join(f"{fault.kind} {fault.target}" for fault in job.faults) or "nothing"
            title = f"{job.strategy} {' '.join(map(str, job.parameters.values()))} {job.on_failure}"
            folder = Path(scratch) / f"storm-{seed}"
            try:
                starts, seconds = run(job, folder, arguments.lab)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{seed:3} {title:<36} LOST: {what}: {str(error)[-600:]}", flush=True)
                continue
            (journal,) = (folder / "runs").glob("*/journal.jsonl")
            events = list(read_journal(journal))
            plan = json.loads((journal.parent / "plan.json").read_text())
            shards = {worker["name"]: worker["shard"] for worker in plan["workers"]}
            wrong = prove(shards, used_spans(events), load_job(journal.parent / "job.yaml").epochs)
            mine = gaps_after_kills(events, job)
            gaps += mine
            survived += not wrong
            verdict = "survived" if not wrong else f"WRONG ({wrong[0]})"
            told = f", gaps {' '.join(f'{gap:.2f}' for gap in mine)}" if mine else ""
            print(f"{seed:3} {title:<36} {verdict} in {seconds:.1f} s, {starts} starts{told}: {what}", flush=True)
    print(f"\n{survived} of {arguments.storms} storms survived, every sample used once per epoch")
    if gaps:
        print(f"gap in progress after a worker's kill: median {statistics.median(gaps):.2f} s, worst {max(gaps):.2f} s "
              f"over {len(gaps)} kills (torchft 5.1 s, Ray Train 6.4 s)")  # fmt: skip


if __name__ == "__main__":
    main()
