"""How much unequal shards can gain at all over equal ones, at the load of Deep-Edge's experiments.

    python benchmarks/load_bound.py [--draws 100000] [--seed 0]

Step times are those of the devices, each times a draw of U(1, 3), which gives the paper's statistics (mean 1.54 x, over
half above 1.5 x, 2 x at most). With no other costs, equal shards take as long as the slowest device, and the best ones,
all ending at once, as long as the harmonic mean says. No scheduler exceeds their ratio by its shards alone.
"""

from __future__ import annotations

import argparse

import numpy as np

DEVICES = {
    "the paper's (1.89 s, 3 x 2.69 s)": (1.89, 2.69, 2.69, 2.69),
    "2 : 1 : 1 : 1": (1.0, 2.0, 2.0, 2.0),
    "4 : 2 : 1": (1.0, 2.0, 4.0),
    "four alike": (1.0, 1.0, 1.0, 1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{asked.draws:,} draws, seed {asked.seed}; equal shards' time / best shards'")
    print("| devices | no load | mean | 5 % - 95 % | above 1.5 | above 1.8 |\n|---|---|---|---|---|---|")
    for name, steps in DEVICES.items():
        load = np.random.default_rng(asked.seed).uniform(1, 3, (asked.draws, len(steps)))
        gains = ratio(np.array(steps) * load)
        low, high = np.quantile(gains, (0.05, 0.95))
        print(f"| {name} | {ratio(np.array([steps]))[0]:.2f} | {gains.mean():.2f} | {low:.2f} - {high:.2f} | "
              f"{np.mean(gains > 1.5):.0%} | {np.mean(gains > 1.8):.0%} |")  # fmt: skip


def ratio(times: np.ndarray) -> np.ndarray:
    """Per row of step times."""
    return np.asarray(times.max(axis=1) * (1 / times).mean(axis=1))


if __name__ == "__main__":
    main()
