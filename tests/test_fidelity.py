"""What a run took, read from its events; and how two runs compare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from littoral.events import EpochFinished
from littoral.fidelity import Fidelity, account, curve_distance
from littoral.testing import simulate, small_continuum, small_job


@pytest.mark.parametrize("strategy", ["allreduce", "parameter_server"])
def test_bytes_and_time_of_an_epoch_do_not_depend_on_how_many_there_were(strategy: str) -> None:
    short, long = (simulate(small_job(strategy=strategy, epochs=epochs)) for epochs in (2, 6))
    few, many = (account(story.events, story.plan) for story in (short, long))
    assert many.time_s > 2.5 * few.time_s
    assert many.epoch_bytes == pytest.approx(few.epoch_bytes, rel=0.1)
    assert many.epoch_s == pytest.approx(few.epoch_s, rel=0.1)
    assert len(short.of(EpochFinished)) == 2


def test_errors_are_relative_to_what_was_measured() -> None:
    quick, slow = (simulate(small_job(continuum=small_continuum(bandwidth=rate))) for rate in (1e6, 1e4))
    predicted, measured = (account(story.events, story.plan) for story in (quick, slow))
    found = Fidelity(job="j", strategy="s", plan=slow.plan, predicted=predicted, measured=measured)
    assert found.epoch_error == pytest.approx(predicted.epoch_s / measured.epoch_s - 1) and found.epoch_error < -0.1
    halved = replace(found, predicted=replace(predicted, epoch_bytes=measured.epoch_bytes / 2))
    assert halved.bytes_error == pytest.approx(-0.5)
    assert found.wait_error > 0.01  # a slow network makes workers wait
    assert found.curve_distance == curve_distance(predicted.accuracies, measured.accuracies)
