"""Timing-only simulation at scale: cost per event with 10, 100 and 1,000 workers, time and memory of the largest.

python benchmarks/scale.py            everything, each case in a process of its own
python benchmarks/scale.py asp 1000   one case
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.events import Sent
from littoral.job import Job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.result import Tally
from littoral.run import open_session
from littoral.supervisor import Supervisor
from littoral.testing import MemoryKeeper

ITERATIONS = 100
CASES = [("asp", 10), ("asp", 100), ("asp", 1000), ("ring", 16), ("ring", 64), ("ring", 256)]


def continuum(workers: int) -> Continuum:
    """Four kinds of device behind a switch; the server's port grows with their number, so that contention does not."""
    devices = [
        Device(
            name=f"w-{i}",
            site="hall",
            step=StepTime(seconds_per_sample=0.001 * (1 + i % 4)),
            memory_bytes=4e9,
            uplink=Constant(12.5e6 * (1 + i % 3)),
            downlink=Constant(12.5e6 * (1 + i % 3)),
            jitter=0.05,
        )
        for i in range(workers)
    ]
    port = Constant(5e6 * workers)
    hub = Device(
        name="hub", site="hall", step=StepTime(seconds_per_sample=1.0), memory_bytes=4e9, uplink=port, downlink=port
    )
    lan = Constant(1e12)
    link = Link(a="hall", b="hall", forward=lan, backward=lan, latency_s=0.0005)
    return Continuum(name="hall", sites=(Site(name="hall"),), devices=(*devices, hub), links=(link,))


def job(case: str, workers: int) -> Job:
    options = {"samples": 32 * ITERATIONS * workers, "test_samples": 10, "classes": 10, "features": 100, "width": 1.0}
    named = {
        "asp": ("parameter_server", {"mode": "asp"}),
        "ring": ("allreduce", {}),
    }[case]
    return Job(
        name=case,
        continuum=continuum(workers),
        task="littoral.tasks.synthetic",
        task_options=options,
        epochs=1,
        strategy=named[0],
        parameters=named[1],
        planner="fair",
        workers=tuple(f"w-{i}" for i in range(workers)),
        servers=("hub",),
    )


def one(case: str, workers: int) -> None:
    described = job(case, workers)
    task = load_task(described.task, described.task_options)
    footprint = task.footprint()
    start = time.perf_counter()
    plan = make_plan(described, footprint, task.recipe)
    planned = time.perf_counter()
    session = open_session(described, task, plan, MemoryKeeper(), seed=0, timing_only=True)
    supervisor, tally = Supervisor(plan), Tally(described, plan, footprint, 0)
    messages = 0
    for event in session.events():
        tally.update(event)
        messages += isinstance(event, Sent)
        for command in supervisor.handle(event):
            session.perform(command)
    seconds = time.perf_counter() - planned
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    per_step = seconds / (workers * ITERATIONS) * 1e6
    print(
        f"{case:6}{workers:>8}{planned - start:>9.2f}{seconds:>9.2f}{session.kernel.events:>11}{messages:>10}"
        f"{seconds / session.kernel.events * 1e6:>10.1f}{per_step:>11.1f}{memory:>8.0f}",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 3:
        one(sys.argv[1], int(sys.argv[2]))
        return
    print(f"timing-only, {ITERATIONS} iterations each; goal: 1,000 asynchronous workers under 30 s and 1 GiB")
    print(f"{'case':6}{'workers':>8}{'plan s':>9}{'run s':>9}{'events':>11}{'messages':>10}{'us/event':>10}"
          f"{'us/step':>11}{'MiB':>8}", flush=True)  # fmt: skip
    for case, workers in CASES:
        subprocess.run([sys.executable, __file__, case, str(workers)], check=True)


if __name__ == "__main__":
    main()
