"""A run that was killed and goes on from its last checkpoint, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from seaside import KilledKeeper, whole

from littoral.events import Checkpointed, Computed, NodeLost, Resumed
from littoral.job import Fault
from littoral.testing import Story, fail_at, simulate, small_job


def test_resuming_from_a_checkpoint_finishes_the_work_exactly_once() -> None:
    job, killed = small_job(epochs=4), KilledKeeper(saves=2)
    entire = simulate(job)
    stop_at = entire.of(Checkpointed)[1].t
    simulate(job, keeper=killed)
    resumed = simulate(job, keeper=killed, resume=True)
    assert resumed.of(Resumed)[0].since == stop_at
    before = [event for event in entire.events if event.t <= stop_at]
    assert whole(replace(entire, events=before + resumed.events))
    # All-reduce has no memory but model and optimiser, so the resumed half repeats the original to the last bit.
    ours, theirs = (story.session.nodes["w-1"].model.vector for story in (resumed, entire))
    assert (ours == theirs).all()


def test_faults_that_still_last_take_effect_again_after_a_resumption() -> None:
    slow = Fault(at_s=0.1, kind="slow-device", node="w-1", factor=0.2)
    job, killed = small_job(epochs=4, faults=[slow, fail_at("w-3", 0.2)]), KilledKeeper(saves=1)
    entire = simulate(job, keeper=killed, timing_only=True)
    resumed = simulate(job, keeper=killed, timing_only=True, resume=True)

    def paces(story: Story) -> list[float]:
        """Of the slow one, in multiples of its usual step, once it is slow."""
        steps = [step for step in story.of(Computed) if step.node == "w-1" and step.start > 0.2]
        return [(step.t - step.start) / (step.samples / 100.0) for step in steps]

    assert paces(entire) == pytest.approx([5.0] * len(paces(entire))) and paces(entire)
    assert paces(resumed) == pytest.approx([5.0] * len(paces(resumed))) and paces(resumed)
    assert [event.node for event in resumed.of(NodeLost)] == ["w-3"]
    assert not any(step.node == "w-3" for step in resumed.of(Computed))
