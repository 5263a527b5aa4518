"""How long a training step takes on a lab's device, measured on all of them at once, as they will work.

    step(batch) = fixed + per_sample * batch        fitted over a few batch sizes

Each probe imports its libraries first and then enters its device's quota, as node processes do.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from littoral.errors import RunFailed
from littoral.worlds.lab.places import Place, enter

ROUNDS = 3  # times that every batch size is visited, so that a passing disturbance hits all of them alike
WINDOW_S = 0.06  # a few periods of a quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A device's affine step time and its relative jitter."""

    fixed_s: float
    per_sample_s: float
    jitter: float


def measure_steps(
    places: Mapping[str, Place], task: str, options: Mapping[str, Any], batches: Sequence[int], seconds: float = 4.0
) -> dict[str, Steps]:
    """Step times on every device, all working at once for about ``seconds``."""
    processes = {}
    try:
        for device, place in places.items():
            order = {
                "place": place,
                "task": task,
                "options": dict(options),
                "batches": list(batches),
                "seconds": seconds,
            }
            process = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            processes[device] = process
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
        for process in processes.values():  # everybody is ready before anybody starts
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RunFailed("a device's step times could not be measured: its probe did not start")
        for process in processes.values():
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.close()
        return {device: _fitted(process) for device, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _fitted(process: subprocess.Popen[bytes]) -> Steps:
    assert process.stdout is not None
    times: dict[int, list[float]] = {int(b): t for b, t in json.loads(process.stdout.readline()).items()}
    return fit({batch: statistics.mean(seen) for batch, seen in times.items()}, jitter(times))


def fit(means: Mapping[int, float], jitter: float) -> Steps:
    """The line through mean step times by batch size, weighted so that relative errors count.

    >>> fit({8: 0.018, 32: 0.042}, 0.0)
    Steps(fixed_s=0.01, per_sample_s=0.001, jitter=0.0)
    """
    import numpy as np

    batches, seconds = np.array(list(means)), np.array(list(means.values()))
    if len(means) == 1:
        return Steps(fixed_s=0.0, per_sample_s=float(seconds[0] / batches[0]), jitter=jitter)
    slope, offset = np.polyfit(batches, seconds, 1, w=1.0 / seconds)
    if offset < 0:  # noise: a step cannot begin before it begins
        slope, offset = float(np.mean(seconds / batches)), 0.0
    return Steps(fixed_s=round(float(offset), 9), per_sample_s=round(float(slope), 9), jitter=jitter)


def jitter(times: Mapping[int, Sequence[float]]) -> float:
    """The relative spread that is left over ``WINDOW_S``.

    A quota lets some steps through at once and holds up others until its next period. That evens out within some tens
    of milliseconds: whoever waits for this device does not wait for the worst of such steps.
    """
    spreads = []
    for seen in times.values():
        mean = statistics.mean(seen)
        size = max(1, math.ceil(WINDOW_S / mean))
        windows = [statistics.mean(seen[at : at + size]) for at in range(0, len(seen) - size + 1, size)]
        if len(windows) > 2:
            spreads.append(statistics.stdev(windows) / mean)
    return statistics.median(spreads) if spreads else 0.0


class _Order(msgspec.Struct):
    place: Place
    task: str
    options: dict[str, Any]
    batches: list[int]
    seconds: float


def main() -> None:
    """One device's probe: told by a line on standard input, answers with one on standard output."""
    import time

    import torch

    from littoral.learning.learner import Learner, Shards
    from littoral.learning.leases import Span
    from littoral.learning.task import load_task

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Order)
    torch.set_num_threads(1)
    task = load_task(order.task, order.options)
    dataset = task.data()
    import numpy as np

    model = Learner(task, Shards(dataset, {"probe": np.arange(len(dataset.train_x))}, 0), 0)
    for batch in order.batches:
        model.gradient([Span(0, "probe", 0, batch)])
    enter(order.place)
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    times: dict[int, list[float]] = {batch: [] for batch in order.batches}
    share = order.seconds / ROUNDS / len(order.batches)
    for _ in range(ROUNDS):
        for batch in order.batches:
            end = time.perf_counter() + share
            at = 0
            while (start := time.perf_counter()) < end:
                model.gradient([Span(0, "probe", at, at + batch)])
                at = (at + batch) % max(1, len(dataset.train_x) - batch)
                times[batch].append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
