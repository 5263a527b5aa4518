"""How far from the proven optimum the solvers are, on random instances of 2 to 8 nodes.

    python benchmarks/optimality.py [--first 1000] [--count 300]

An instance is its seed (``random_instance`` in tests/planning/instances.py). A gap is the total time divided by the
optimum's, less 1, over the schemes that break no rule; what breaks one is counted, not averaged. Deep-Edge takes the
place of its servers as given: "best place" is the best of its answers for each. As printed and fair choose batches off
the instance's ladder, so they may come out below the optimum on it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from littoral.errors import Infeasible
from littoral.planning.deepedge import solve, solve_fair, solve_paper
from littoral.planning.exact import solve_exact
from littoral.planning.instance import Instance, Scheme, violations
from littoral.planning.search import search

sys.path.append(str(Path(__file__).parent.parent / "tests" / "planning"))
from instances import random_instance


def best_place(instance: Instance) -> Scheme:
    places = range(len(instance.server_choices))
    return min((solve(instance, place) for place in places), key=lambda scheme: scheme.total_s)


SOLVERS: dict[str, Callable[[Instance], Scheme]] = {
    "search": search,
    "deepedge": solve,
    "deepedge, best place": best_place,
    "deepedge as printed": solve_paper,
    "fair": solve_fair,
    "fair, where there is room": lambda instance: solve_fair(instance, feasible=True),
}


def gap(solver: Callable[[Instance], Scheme], instance: Instance, optimum: Scheme) -> float:
    """nan: no scheme, or one that breaks a rule."""
    try:
        scheme = solver(instance)
    except Infeasible:
        return np.nan
    return np.nan if violations(instance, scheme) else scheme.total_s / optimum.total_s - 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--count", type=int, default=300)
    given = parser.parse_args()
    gaps: dict[str, list[float]] = {name: [] for name in SOLVERS}
    seconds = dict.fromkeys(["exact", *SOLVERS], 0.0)
    for seed in range(given.first, given.first + given.count):
        instance = random_instance(seed)
        began = time.perf_counter()
        optimum = solve_exact(instance)
        seconds["exact"] += time.perf_counter() - began
        for name, solver in SOLVERS.items():
            began = time.perf_counter()
            gaps[name].append(gap(solver, instance, optimum))
            seconds[name] += time.perf_counter() - began
    print(f"seeds {given.first} to {given.first + given.count - 1}; exact {seconds['exact'] / given.count:.3f} s each")
    print(f"{'solver':<28}{'mean gap':>10}{'worst':>10}{'optimal':>10}{'invalid':>10}{'s each':>10}")
    for name, values in gaps.items():
        kept = np.array([value for value in values if not np.isnan(value)])
        mean, worst = (kept.mean(), kept.max()) if len(kept) else (np.nan, np.nan)
        print(
            f"{name:<28}{mean:>10.3%}{worst:>10.2%}{np.sum(kept < 1e-9):>10}{len(values) - len(kept):>10}"
            f"{seconds[name] / given.count:>10.3f}"
        )


if __name__ == "__main__":
    main()
