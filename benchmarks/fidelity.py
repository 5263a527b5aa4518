"""How true is the simulator: epoch time, bytes, waiting and accuracy, foretold and measured in the lab (as root).

    python benchmarks/fidelity.py [--seconds 10]

Sixteen pairs: four scenarios (fast links, mixed ports, a wide-area link of 20 ms, a shared medium that everybody
crowds) times four strategies. Every job is sized to take about --seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

from lab import FAST, MBIT, MIXED, SHARES, continuum, fashion
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Site
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.fidelity import Fidelity, compare_worlds, measured_continuum
from littoral.job import Job
from littoral.testing import simulate
from littoral.worlds.lab.lab import Lab
from littoral.worlds.processes.launch import Forge

STRATEGIES = [
    ("allreduce", {}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "ssp", "bound": 3}),
    ("parameter_server", {"mode": "asp"}),
]


def wide_area() -> Continuum:
    """Two sites of two devices, 50 Mbit/s and 20 ms apart."""
    local = continuum(SHARES, FAST)
    devices = tuple(replace(d, site="bench" if d.name in ("d-1", "d-2") else "far") for d in local.devices)
    inner = local.links[0]
    wan = Link(a="bench", b="far", forward=Constant(50 * MBIT), backward=Constant(50 * MBIT), latency_s=0.02)
    sites = (Site(name="bench"), Site(name="far", tier="cloud"))
    return replace(local, sites=sites, devices=devices, links=(inner, replace(inner, a="far", b="far"), wan))


def crowded() -> Continuum:
    """One shared medium of 60 Mbit/s with 3 ms, as Wi-Fi is."""
    local = continuum(SHARES, FAST)
    medium = Link(
        a="bench", b="bench", forward=Constant(60 * MBIT), backward=Constant(60 * MBIT), latency_s=0.003, shared=True
    )
    return replace(local, links=(medium,))


SCENARIOS = {
    "fast": lambda: continuum(SHARES, FAST), "mixed": lambda: continuum(SHARES, MIXED), "wide area": wide_area,
    "crowded": crowded,
}  # fmt: skip


def sized(job: Job, measured: Continuum, seconds: float) -> Job:
    """The job with as many samples as take about that long."""
    trial = replace(job, continuum=measured, task_options=job.task_options | {"samples": 2000}, epochs=1)
    took = simulate(trial, timing_only=True).time_s
    samples = max(512, min(60_000, int(2000 * seconds / 2 / took)))
    return replace(job, task_options=job.task_options | {"samples": samples}, epochs=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--data")
    arguments = parser.parse_args()
    task, options = fashion(arguments.data)
    found: list[tuple[str, Fidelity]] = []
    with Forge() as forge:
        for name in arguments.scenarios.split(","):
            described = SCENARIOS[name]()
            base = Job(
                name=name, continuum=described, task=task, task_options=options, servers=("d-1",),
                workers=described.device_names, planner="proportional", evaluate_every=1.0,
            )  # fmt: skip
            with Lab.up(described) as lab:
                measured = measured_continuum(base, lab)
                for strategy, parameters in STRATEGIES:
                    job = sized(replace(base, strategy=strategy, parameters=parameters), measured, arguments.seconds)
                    fidelity = compare_worlds(job, lab, forge, measured=measured)
                    found.append((name, fidelity))
                    print(
                        f"  {name}, {fidelity.strategy}: {100 * fidelity.epoch_error:+.1f} %",
                        file=sys.stderr,
                        flush=True,
                    )
    head = f"{'scenario':<10} {'strategy':<32} {'foretold':>9} {'measured':>9} {'epoch':>8} {'bytes':>8}"
    print(f"{head} {'waits':>6} {'curve':>7}")
    for name, each in found:
        print(f"{name:<10} {each.strategy:<32} {each.predicted.epoch_s:8.2f}s {each.measured.epoch_s:8.2f}s "
              f"{100 * each.epoch_error:+7.1f}% {100 * each.bytes_error:+7.1f}% {each.wait_error:6.3f} "
              f"{each.curve_distance:7.4f}")  # fmt: skip
    errors = [abs(each.epoch_error) for _, each in found]
    print(f"\nepoch time: median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %, "
          f"{len(found)} pairs")  # fmt: skip


if __name__ == "__main__":
    main()
