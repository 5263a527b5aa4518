"""How long ``littoral --help`` and ``littoral check`` take, as a user waits for them. Goal: under 0.5 s.

python benchmarks/startup.py [--repeats 10]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

JOB = Path(__file__).parent.parent / "examples" / "edge-cluster" / "job.yaml"
GOAL_S = 0.5


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "littoral", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    print(f"start-up, {repeats} runs each; goal: {GOAL_S} s")
    print(f"{'command':28}{'median s':>10}{'of goal':>9}  spread")
    for arguments in (["--help"], ["check", str(JOB)], ["plan", str(JOB)]):
        times = sorted(seconds(*arguments) for _ in range(repeats))
        median = statistics.median(times)
        name = " ".join(Path(part).name for part in arguments)
        print(f"littoral {name:19}{median:>10.3f}{median / GOAL_S:>8.2f}x  {times[0]:.3f} .. {times[-1]:.3f}")


if __name__ == "__main__":
    main()
