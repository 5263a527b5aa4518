"""How well plans predict what the simulation then takes: every example, strategy and planner, 20 epochs, no faults.

Planner and simulator share step times and pipes, so this measures the closed forms (rings, queues at servers, apps,
traces taken at their mean), not the models of device and network.

python benchmarks/prediction.py
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from littoral.job import Limits, load_job
from littoral.testing import simulate

EXAMPLES = Path(__file__).parent.parent / "examples"
STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("allreduce", {}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "ssp"}),
    ("parameter_server", {"mode": "asp"}),
]


def main() -> None:
    errors = []
    print(f"{'example':16}{'strategy':>22}{'fair':>10}{'proportional':>14}   predicted / simulated - 1")
    for path in sorted(EXAMPLES.glob("*/job.yaml")):
        job = replace(load_job(path), accuracy=None, limits=Limits(), faults=(), epochs=20)
        for strategy, parameters in STRATEGIES:
            row = []
            for planner in ("fair", "proportional"):
                story = simulate(
                    replace(job, strategy=strategy, parameters=parameters, planner=planner), timing_only=True
                )
                row.append(100 * (story.plan.predicted.time_s / story.time_s - 1))
            errors += row
            name = " ".join([strategy, *map(str, parameters.values())])
            print(f"{path.parent.name:16}{name:>22}{row[0]:>+9.1f}%{row[1]:>+13.1f}%", flush=True)
    sizes = sorted(map(abs, errors))
    print(f"absolute error: median {statistics.median(sizes):.1f} %, worst {sizes[-1]:.1f} %, seed 0")


if __name__ == "__main__":
    main()
