"""The accuracy monitor on recorded learning curves: how well it foretells, what it saves, what that costs.

    python benchmarks/curves.py record --out FILE [--data FOLDER] [--caltech FOLDER] [--jobs N] [--part K/N]
                                       [--device cuda]
    python benchmarks/curves.py study FILE [--of tune]

``record`` trains 94 settings for real (``curve_recording.py``) and appends each curve to FILE (JSON lines);
started again, it does what is missing. Digits need scikit-learn; the others the folder of their data. ``study`` replays
the curves that no constant was tuned on (``curve_study.py``).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from functools import partial
from pathlib import Path

from curve_recording import TEST, TUNE, record, settings, work
from trials import perform


def record_all(asked: argparse.Namespace) -> None:
    """Train what there is data for; the longest first, so that all processes end together."""
    os.environ["OMP_NUM_THREADS"] = "1"
    folders = {"fashion_mnist": asked.data, "caltech101": asked.caltech}
    folders |= {"digits": "scikit-learn" if importlib.util.find_spec("sklearn") else None}
    here = {name: folder for name, folder in folders.items() if folder}
    for name in folders.keys() - here.keys():
        print(f"no curves of {name}: its data is not here", file=sys.stderr)
    chosen = [s for s in settings() if s.task in here and (not asked.tasks or s.task in asked.tasks.split(","))]
    chosen.sort(key=lambda setting: -work(setting, here))
    first, parts = map(int, asked.part.split("/"))
    keys = [setting.key for setting in chosen[first - 1 :: parts]]
    perform(partial(record, folders=here, device=asked.device), keys, asked.out, jobs=asked.jobs)


def study(path: Path, part: str) -> str:
    """Markdown tables."""
    from curve_study import forecasting, kinds, read, stopping, trading

    curves = read(path, part)
    tables = {
        f"When to stop: {len(curves)} curves, mean ± standard error, points of accuracy": stopping(curves),
        "By kind of curve, the monitor": kinds(curves),
        "What a larger or smaller gain buys": trading(curves),
        "Forecasts of the epochs needed, in shares of these": forecasting(curves),
    }
    return "\n\n".join(f"{title}\n\n{table}" for title, table in tables.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = parser.add_subparsers(dest="act", required=True)
    recording = acts.add_parser("record", help="train, and keep the curves")
    recording.add_argument("--out", type=Path, required=True)
    recording.add_argument("--data", help="folder of Fashion-MNIST")
    recording.add_argument("--caltech", help="folder of Caltech-101 at 32 x 32")
    recording.add_argument("--tasks", default="", help="only these, such as digits,caltech101")
    recording.add_argument("--jobs", type=int, default=os.cpu_count())
    recording.add_argument("--part", default="1/1", help="such as 2/3: every third curve, from the second on")
    recording.add_argument("--device", default="cpu")
    studying = acts.add_parser("study", help="replay the curves to the monitor and to simpler rules")
    studying.add_argument("file", type=Path)
    studying.add_argument("--of", choices=[TEST, TUNE], default=TEST, help="which curves")
    asked = parser.parse_args()
    record_all(asked) if asked.act == "record" else print(study(asked.file, asked.of))


if __name__ == "__main__":
    main()
