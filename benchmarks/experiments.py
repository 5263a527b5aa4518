"""Deep-Edge's 120 random experiments on a profile of ours: epoch times by solver, and whether apps keep deadlines.

    python benchmarks/experiments.py PROFILE [--count 120] [--seed 0] [--deadline SECONDS] [--kinds a,b,b,b] [--batch 8]
        [--jobs 2]

See ``littoral.experiments`` for the protocol.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from littoral.experiments import SOLVERS, Outcome, experiments, setting_of
from littoral.profiling.profile import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--batch", type=int, default=0, help="the job's, if not the middle one of those measured")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    kinds = [kind for kind in asked.kinds.split(",") if kind]
    setting = setting_of(load(asked.profile), kinds=kinds, deadline_s=asked.deadline, batch=asked.batch,
                         seed=asked.seed)  # fmt: skip
    began, outcomes = time.time(), []
    for outcome in experiments(setting, asked.count, jobs=asked.jobs):
        outcomes.append(outcome)
        if len(outcomes) % 10 == 0:
            print(f"{len(outcomes)} of {asked.count}, {time.time() - began:.0f} s", flush=True)
    print(f"{asked.count} experiments, seed {asked.seed}, {', '.join(setting.kinds)}, {setting.app} within "
          f"{setting.deadline_s:.3g} s; fair / solver")  # fmt: skip
    report(outcomes)


def report(outcomes: list[Outcome]) -> None:
    print("| solver | mean | least | most | above 1.5 | breaks a rule | idle workers | infeasible |")
    print("|---|---|---|---|---|---|---|---|")
    epochs = {name: np.array([outcome.epoch_s[name] for outcome in outcomes]) for name in SOLVERS}
    for name, found in epochs.items():
        some = (epochs["fair"] / found)[np.isfinite(found)]
        broken = sum(outcome.broken[name] for outcome in outcomes)
        idle = np.mean([outcome.idle[name] for outcome in outcomes])
        print(f"| {name} | {some.mean():.2f} | {some.min():.2f} | {some.max():.2f} | {np.mean(some > 1.5):.0%} | "
              f"{broken} | {idle:.2f} | {len(found) - len(some)} |")  # fmt: skip
    slower = int((epochs["search"] > epochs["deepedge"] * (1 + 1e-9)).sum())
    both = np.isfinite(epochs["search"]) & np.isfinite(epochs["exact"])
    gap = 100 * float(np.mean(epochs["search"][both] / epochs["exact"][both] - 1))
    plain = (epochs["fair, job's batch"] / epochs["search"])[np.isfinite(epochs["search"])]
    print(f"\nsearch slower than deepedge in {slower}; above exact by {gap:.3f} % on average; equal shards with the "
          f"job's batch take {plain.mean():.2f} times its time ({plain.min():.2f} to {plain.max():.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
