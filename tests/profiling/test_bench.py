"""One point measured for real: apps, stress, training and probes on emulated devices."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from littoral.continuum.app import App
from littoral.errors import InputError, RunFailed
from littoral.events import Computed
from littoral.profiling.appbench import AppBench
from littoral.profiling.bench import ENOUGH_STEPS, FEWEST_STEPS, Bench, Windows, stretch
from littoral.profiling.design import Point
from littoral.profiling.stressors import Stress
from littoral.testing import small_continuum, small_job
from littoral.worlds.lab.lab import Lab, missing_parts
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Forge

BUSY = App(name="busy", on=("w-1",), period_s=0.1, deadline_s=0.1, work_s=0.01)


def test_an_app_tells_every_latency_and_ends_with_its_owner() -> None:
    with AppBench(BUSY, "w-1", None) as bench:
        bench.wait_ready()
        start = time.monotonic()
        time.sleep(0.6)
        latencies = bench.latencies(start, time.monotonic())
        pid = bench._process.pid
    assert len(latencies) >= 4 and all(latency >= 0.01 for latency in latencies)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_app_that_never_finishes_is_named() -> None:
    endless = replace(BUSY, work_s=1e6)
    with (
        AppBench(endless, "w-1", None) as bench,
        pytest.raises(RunFailed, match=r"'busy' finished none of \d+ periods"),
    ):
        bench.wait_ready(limit_s=0.1)


def test_an_app_that_is_not_there_is_refused_before_anything_starts() -> None:
    with pytest.raises(InputError, match="no_such_app"):
        AppBench(replace(BUSY, run="no_such_app"), "w-1", None).__enter__()


def test_a_window_is_longer_for_whoever_makes_few_steps() -> None:
    def steps(count: int) -> list[Computed]:
        return [Computed(t=i + 0.9, node="w", start=float(i), samples=1, epoch=0, loss=None) for i in range(count)]

    assert stretch({"a": steps(ENOUGH_STEPS + 3), "b": steps(ENOUGH_STEPS + 4)}, opened=3.0) == 1
    assert stretch({"a": steps(ENOUGH_STEPS + 2), "b": steps(ENOUGH_STEPS + 4)}, opened=3.0) > 1


@pytest.mark.skipif(bool(missing_parts()), reason=f"no lab here: {', '.join(missing_parts())}")
def test_a_point_on_emulated_devices(machine: None, forge: Forge) -> None:
    continuum = replace(small_continuum([100.0, 100.0]), apps=(BUSY,))
    continuum = replace(continuum, devices=tuple(replace(d, cpu=0.4) for d in continuum.devices))
    job = small_job(continuum=continuum)
    point = Point(
        number=7, stress={"w-1": Stress(cpu=0.5), "w-2": Stress(), "hub": Stress()}, batches={"w-1": 4, "w-2": 8}
    )
    short = Windows(settle_s=0.5, before_s=0.6, skip_s=0.2, during_s=1.0)
    with Lab.up(continuum) as lab:
        kinds = {"w-1": "small", "w-2": "small"}
        with Bench(job, kinds, "hub", ground=Ground(lab), launcher=forge, windows=short) as bench:
            measured = bench.measure(point)
    rows = {row.device: row for row in measured.training}
    assert set(rows) == {"w-1", "w-2"}
    assert (rows["w-1"].batch, rows["w-1"].workers, rows["w-1"].batch_sum, rows["w-1"].batch_max) == (4, 2, 12, 8)
    assert rows["w-1"].before.cpu > rows["w-2"].before.cpu + 0.2  # the stressed one is busier
    assert rows["w-2"].during.cpu > rows["w-2"].before.cpu + 0.05  # and training makes anybody busier
    assert all(row.compute_s > 0 and row.update_s > 0 and row.steps >= FEWEST_STEPS for row in rows.values())
    assert all(row.before.pace and row.during.pace and row.server.pace for row in rows.values())
    assert [(row.app, row.device) for row in measured.apps] == [("busy", "w-1")] * 2  # without training and with
