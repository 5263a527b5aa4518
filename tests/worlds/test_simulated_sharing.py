"""Devices that training shares with apps and other load, in virtual time; and memory that has an end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from seaside import KilledKeeper, whole, with_device

from littoral.continuum.app import App
from littoral.continuum.signal import Steps
from littoral.errors import Infeasible
from littoral.events import AppChecked, Computed, DeadlineMissed, OutOfMemory
from littoral.job import Job
from littoral.testing import simulate, small_continuum, small_job


def with_app(app: App) -> Job:
    return small_job(workers=1, epochs=1, continuum=replace(small_continuum((100.0,)), apps=(app,)))


def test_training_and_apps_slow_each_other_down() -> None:
    app = App(name="sift", on=("w-1",), period_s=0.2, deadline_s=0.2, work_s=0.06, demand=0.5)
    story = simulate(with_app(app), timing_only=True)
    verdict = story.of(AppChecked)[0]
    assert verdict.violated == 0
    assert verdict.worst_s == pytest.approx(0.06 * 1.5, rel=0.05)
    # 30 steps of 0.08 s; in each 0.2 s period the app takes 0.09 s, in which training gets 0.06 s.
    assert story.of(Computed)[-1].t == pytest.approx(30 * 0.08 / (0.17 / 0.2), rel=0.06)


def test_a_deadline_that_training_breaks_is_counted() -> None:
    app = App(name="sift", on=("w-1",), period_s=0.2, deadline_s=0.1, work_s=0.08, demand=0.9)
    job = with_app(app)
    with pytest.raises(Infeasible, match=r"sift.*w-1"):
        simulate(job, timing_only=True)
    relaxed = replace(app, deadline_s=0.16)
    plan = simulate(with_app(relaxed), timing_only=True).plan
    story = simulate(job, plan=plan, timing_only=True)
    verdict = story.of(AppChecked)[0]
    assert verdict.violated == len(story.of(DeadlineMissed)) > 0.5 * verdict.checked


def test_dropped_frames_have_no_latency() -> None:
    """Each frame takes longer than a period, so every other one is dropped; all of them are late."""
    app = App(name="sift", on=("w-1",), period_s=0.1, deadline_s=0.1, work_s=0.12, demand=0.5)
    plan = simulate(with_app(replace(app, work_s=0.01)), timing_only=True).plan
    keeper = KilledKeeper(saves=1)
    job = replace(with_app(app), epochs=2)
    story = simulate(job, plan=replace(plan, epochs=2), keeper=keeper, timing_only=True)
    latencies = [event.latency_s for event in story.of(DeadlineMissed)]
    worked = [latency for latency in latencies if latency is not None]
    (verdict,) = story.of(AppChecked)
    assert verdict.checked == len(latencies) > 1.5 * len(worked)
    assert verdict.mean_s == pytest.approx(sum(worked) / len(worked))
    resumed = simulate(job, plan=replace(plan, epochs=2), keeper=keeper, timing_only=True, resume=True)
    (verdict,) = resumed.of(AppChecked)
    assert verdict.mean_s == pytest.approx(sum(worked) / len(worked), rel=0.1)


def test_load_that_comes_and_goes_slows_steps_meanwhile() -> None:
    job = with_device(small_job(workers=1, epochs=1), "w-1", load=Steps((0.0, 1.0), (0.0, 1.0)))
    story = simulate(job, timing_only=True)
    free = [e.t - e.start for e in story.of(Computed) if e.t <= 1.0]
    crowded = [e.t - e.start for e in story.of(Computed) if e.start >= 1.0]
    assert free == pytest.approx([0.08] * len(free))
    assert crowded == pytest.approx([0.16] * len(crowded))


def test_a_batch_beyond_memory_is_an_event_and_is_cut() -> None:
    job = small_job(workers=2, epochs=1)
    rich = simulate(job, timing_only=True)
    footprint = rich.session.footprint
    room = 4 * footprint.vector_bytes + 3.5 * footprint.activation_bytes
    story = simulate(with_device(job, "w-1", memory_bytes=room), plan=rich.plan, timing_only=True)
    assert story.of(OutOfMemory)[0].limit == 3
    assert len(story.of(OutOfMemory)) == 1  # the supervisor made the batch smaller
    assert max(e.samples for e in story.of(Computed) if e.node == "w-1") == 3
    assert whole(story)
