"""CPU seconds that the solvers take for 10 to 10,000 nodes, and the exponent by which they grow.

    python benchmarks/solver_scale.py [--most 10000]

Run it with OMP_NUM_THREADS=1, for CPU seconds of one core; on an idle machine they are the time. 100 samples per node,
seven batch sizes, two placements of servers.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from littoral.planning.deepedge import solve
from littoral.planning.search import search

sys.path.append(str(Path(__file__).parent.parent / "tests" / "planning"))
from instances import random_instance

LADDER = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=10_000)
    given = parser.parse_args()
    sizes = [n for n in (10, 30, 100, 300, 1000, 3000, 10_000) if n <= given.most]
    spent = []
    print(f"{'nodes':>8}{'search s':>12}{'deepedge s':>12}{'deepedge / search time':>26}")
    for n in sizes:
        instance = random_instance(n, n, samples=100 * n, ladder=LADDER)
        began = time.process_time()
        found = search(instance)
        spent.append(time.process_time() - began)
        began = time.process_time()
        known = solve(instance)
        took = time.process_time() - began
        print(f"{n:>8}{spent[-1]:>12.3f}{took:>12.3f}{known.total_s / found.total_s:>26.3f}", flush=True)
    for least in (10, 300):  # up to 128 nodes change one by one: many more are treated in groups
        some = [(n, s) for n, s in zip(sizes, spent, strict=True) if n >= least]
        if len(some) > 1:
            power = np.polyfit(*np.log(np.array(some)).T, 1)[0]
            print(f"from {least} nodes on, search grows with nodes to the power {power:.2f}")


if __name__ == "__main__":
    main()
