"""Uses all the processor time it gets and says how much that was: a device's quota, measured.

A program of its own: ``burn.py SECONDS STEP_S CGROUP...``. It starts before it joins the groups, because starting
Python on a hundredth of a core takes seconds. Prints the cores it had, and the mean over steps of wall time per
processor time.
"""

from __future__ import annotations

import os
import statistics
import sys
import time


def work(cpu_s: float) -> None:
    """A fixed amount of computing."""
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        sum(range(500))


def main(seconds: float, step_s: float, groups: list[str]) -> None:
    for group in groups:
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))
    work(0.02)  # uses up what the group had saved for its first period
    wall, cpu, slowness = time.monotonic(), time.process_time(), []
    while time.monotonic() - wall < seconds:
        step = time.monotonic(), time.process_time()
        work(step_s)
        slowness.append((time.monotonic() - step[0]) / (time.process_time() - step[1]))
    cores = (time.process_time() - cpu) / (time.monotonic() - wall)
    print(cores, statistics.fmean(slowness))


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
