"""When to train again: the manager's triggers, with and without a follow-up, against always, never and by schedule.

    python benchmarks/drift.py tune
    python benchmarks/drift.py run --data FOLDER [--fashion FOLDER] [--picture FILE] [--seeds N] [--kswin]

FOLDER holds elec2.csv.gz (electricity prices, drifts unknown); images are scikit-learn's digits in five phases with
known drifts, and Fashion-MNIST in the same ones if its folder is given. A small network answers every sample before its
label is known (at once after that), and trains only when a policy says so: from where it is, on the last window. The
settings of the triggers are those that ``tune`` found best, on the other half of the digits with drifts of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from drift_picture import draw
from drift_study import run
from drift_tuning import tune
from littoral.errors import InputError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("tune")
    running = parts.add_parser("run")
    running.add_argument("--data", type=Path, required=True, help="the folder with elec2.csv.gz")
    running.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    running.add_argument("--picture", type=Path, help="where to save the picture")
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--kswin", action="store_true", help="that detector, too: it takes most of the time then")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        tune() if options.part == "tune" else report(options)
    except InputError as error:
        sys.exit(str(error))


def report(options: argparse.Namespace) -> None:
    """The tables, and a picture if one is wanted."""
    images, prices = run(options.data, options.fashion, range(options.seeds), options.kswin)
    if options.picture:
        rows = ["never", "always", next(row for row in prices if row.startswith("adwin "))]
        draw(options.picture, [images[row][0] for row in rows], [prices[row][0] for row in rows])


if __name__ == "__main__":
    main()
