"""A profile as solvers ask it."""

from __future__ import annotations

import numpy as np
import pytest

from littoral.planning.profiled import ProfiledPerformance
from littoral.profiling.estimators import Estimators
from littoral.profiling.rows import State


def test_a_profile_is_asked_by_kind(nano: Estimators) -> None:
    calm, busy = State(cpu=0.2, memory=0.3), State(cpu=0.8, memory=0.3)
    model = ProfiledPerformance(
        {"jetson-nano": nano}, ["jetson-nano"] * 3, [calm, busy, calm], [calm], [("sift", frozenset({0, 1}))]
    )
    nodes, batches = np.arange(3), np.array([8, 8, 32])
    each = model.compute_seconds(nodes, batches)
    assert each[0] == pytest.approx(nano.compute_time(calm, 8).mean[0]) and each[1] > each[0] > each[2]
    late = model.latencies(nodes, batches)
    assert late[1, 0] > 0 and np.isnan(late[2, 0])
    rows = model.update_seconds(nodes, np.stack([batches, batches]), (0,))
    assert rows.shape == (2, 3) and rows[0] == pytest.approx(model.update_seconds(nodes, batches, (0,)))
    assert (model.largest_batch(nodes) >= 1).all()
