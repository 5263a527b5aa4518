"""The simulated world: exact times and bytes, and the same events for the same seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from littoral.continuum.app import Store
from littoral.continuum.link import HEADER_BYTES
from littoral.events import Computed, Fetched, Sent
from littoral.testing import fail_at, simulate, small_continuum, small_job


def test_a_step_takes_what_the_formulas_say() -> None:
    """Two equal workers: compute + 2(n-1)/n M/r + two hops of latency + three passes over memory."""
    job = small_job(continuum=small_continuum((100.0, 100.0), bandwidth=1e4, latency_s=0.05), epochs=1)
    story = simulate(job, timing_only=True)
    vector = story.session.footprint.vector_bytes
    part = 4 * -(-vector // 4 // 2)  # the larger half of the vector
    step = 8 / 100 + 2 * (part + HEADER_BYTES) / 1e4 + 2 * 0.05 + 3 * vector / 20e9
    steps = 240 / 2 / 8
    last = story.of(Computed)[-1]
    assert last.t == pytest.approx((steps - 1) * step + 8 / 100)


@pytest.mark.parametrize(("workers", "legs"), [(3, 4), (10, 1)])
def test_all_reduce_bytes_are_the_textbook_amount(workers: int, legs: int) -> None:
    """Each member sends 2(n-1)/n of the vector, directly to the others or around a ring."""
    story = simulate(small_job(workers=workers, epochs=1), timing_only=True)
    vector = story.session.footprint.vector_bytes
    first = [event for event in story.of(Sent) if event.source == "w-1"][:legs]
    expected = 2 * (workers - 1) / workers * vector
    assert sum(event.size - HEADER_BYTES for event in first) == pytest.approx(expected, abs=4 * legs)


def test_a_push_takes_latency_plus_size_over_rate() -> None:
    job = small_job(workers=1, strategy="parameter_server", mode="asp",
                    continuum=small_continuum((100.0,), bandwidth=1e4, latency_s=0.25), epochs=1)  # fmt: skip
    story = simulate(job, timing_only=True)
    push = next(event for event in story.of(Sent) if event.message == "Push")
    assert push.t - push.start == pytest.approx(0.25 + push.size / 1e4)


def test_clock_spread_never_exceeds_the_staleness_bound() -> None:
    for bound in (0, 1, 3):
        job = small_job(strategy="parameter_server", planner="fair", mode="ssp", bound=bound, workers=4)
        story = simulate(job, timing_only=True)
        done = {worker.name: 0 for worker in story.plan.workers}
        total = {w.name: 2 * -(-w.shard // w.batch) for w in story.plan.workers}
        spread = 0
        for event in story.of(Computed):
            active = [n for n, c in done.items() if c < total[n]]
            done[event.node] += 1
            spread = max(spread, done[event.node] - min(done[n] for n in active))
        # An iteration in progress counts: whoever completes one may be bound + 1 ahead, and no more.
        assert spread <= bound + 1
        assert bound == 0 or spread > 1


def test_data_comes_from_the_store_before_work_begins() -> None:
    continuum = replace(
        small_continuum((100.0, 100.0), bandwidth=1e4), stores=(Store(name="disk", site="lab", device="hub"),)
    )
    story = simulate(small_job(continuum=continuum, epochs=1), timing_only=True)
    footprint = story.session.footprint
    size = 120 * footprint.sample_bytes + footprint.vector_bytes
    # Both fetch at once from a hub whose port does 1e4 bytes/s.
    assert [event.t for event in story.of(Fetched)] == pytest.approx([2 * size / 1e4 + 0.01] * 2)
    assert min(event.start for event in story.of(Computed)) == pytest.approx(2 * size / 1e4 + 0.01)


def test_same_seed_same_events_other_seed_other_events() -> None:
    job = small_job(continuum=small_continuum(jitter=0.1), faults=[fail_at("w-2", 0.7, back_after_s=1.0)])
    first, again, other = simulate(job, seed=1), simulate(job, seed=1), simulate(job, seed=2)
    assert first.events == again.events
    assert first.events != other.events
