"""Gaia's promises: message by message without a world (``mirrored``), and in whole runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mirrored import Sea
from spy import Case, Log, cases, spied

from littoral.strategies.gaia import Gaia

SEAS = st.builds(
    lambda sites, groups, seed: (sites, groups, seed),
    st.lists(st.integers(0, 2), min_size=1, max_size=5).filter(any),
    st.sampled_from([0, 0, 2, 3]),
    st.integers(0, 2**32),
)
THRESHOLDS = st.sampled_from([0.0, 0.01, 0.8, 1e30])


@given(sea=SEAS, threshold=THRESHOLDS, ahead=st.integers(0, 2), bound=st.sampled_from([0, 0, 2]), tides=st.booleans())
def test_messages(sea: Any, threshold: float, ahead: int, bound: int, tides: bool) -> None:
    """Invariants 1 to 9, after every message (see ``mirrored``), and in the end."""
    sites, hubs, seed = sea
    strategy = Gaia(threshold=threshold, ahead=ahead, bound=bound, hubs=hubs, decay="none" if seed % 2 else "sqrt")
    sea = Sea(strategy, sites, seed, tides=tides)
    sea.sail()
    copies = [island.model.vector for island in sea.islands.values()]
    if threshold == 0.0:
        assert all(torch.equal(copies[0], copy) for copy in copies)  # 3
    if threshold == 1e30:
        assert not sea.counts["updates"]  # 4
    assert all(len(values) == 1 for values in sea.thresholds.values())  # 9
