"""When to train again: the manager's triggers, with and without a follow-up, against always, never and by schedule.

    python benchmarks/drift.py tune
    python benchmarks/drift.py run [--digits] [--fashion FOLDER] [--elec2 FOLDER] [--picture FILE] [--seeds N] [--kswin]

elec2.csv.gz are electricity prices, drifts unknown; scikit-learn's digits and Fashion-MNIST come in five phases with
known drifts. A small network answers every sample before its
label is known (at once after that), and trains only when a policy says so: from where it is, on the last window. The
settings of the triggers are those that ``tune`` found best, on the other half of the digits with drifts of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from drift_courses import half
from drift_picture import draw
from drift_serving import Outcome
from drift_study import Results, on_images, on_prices
from drift_tuning import DEFAULT, tune, words
from littoral.errors import InputError
from littoral.incremental.images import digits, fashion_mnist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("tune")
    running = parts.add_parser("run")
    running.add_argument("--digits", action="store_true", help="half of scikit-learn's digits")
    running.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    running.add_argument("--elec2", type=Path, help="the folder with elec2.csv.gz")
    running.add_argument("--picture", type=Path, help="where to save a picture of the first seed")
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--kswin", action="store_true", help="that detector, too: it takes most of the time then")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        tune() if options.part == "tune" else report(options)
    except InputError as error:
        sys.exit(str(error))


def report(options: argparse.Namespace) -> None:
    """The tables of what was asked for, and a picture if one is wanted."""
    seeds, results = range(options.seeds), {}
    if options.digits:
        results["digits"] = on_images("digits", half(digits(), 1), seeds, options.kswin)
    if options.fashion:
        results["Fashion-MNIST"] = on_images("Fashion-MNIST", fashion_mnist(options.fashion), seeds, options.kswin)
    if options.elec2:
        results["elec2"] = on_prices(options.elec2, seeds, options.kswin)
    if options.picture:
        draw(options.picture, {name: first(found) for name, found in results.items()})


def first(found: Results) -> dict[str, Outcome]:
    """Of the first seed: never, always, and the drift trigger as it comes."""
    rows = {"never": "never", "always": "always", "drift trigger": f"adwin {words(DEFAULT)}"}
    return {label: found[row][0] for label, row in rows.items()}


if __name__ == "__main__":
    main()
