"""The exact solver is exact: beside brute force over every shard and every batch of tiny instances."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import plain, random_instance

from littoral.errors import Infeasible, InputError
from littoral.planning.exact import solve_exact
from littoral.planning.instance import Array, Floats, Instance, Ints, Placement, evaluate, violations
from littoral.planning.room import room


def every_scheme(instance: Instance) -> list[float]:
    """The total times of all schemes without a violation: every store, batch, shard and placement."""
    n, sizes = len(instance.names), [0, *instance.rungs.tolist()]
    times = []
    for shards in product(range(instance.samples + 1), repeat=n - 1):
        last = instance.samples - sum(shards)
        if last < 0:
            continue
        every = (*shards, last)
        for batches in product(*([b for b in sizes if (b > 0) == (d > 0) and b <= d] for d in every)):
            for placement, stores in product(range(len(instance.server_choices)), product(range(2), repeat=n)):
                scheme = evaluate(instance, every, batches, placement, stores)
                if not violations(instance, scheme):
                    times.append(scheme.total_s)
    return times


@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(4, 14))
@settings(max_examples=40)
def test_no_scheme_beats_it(seed: int, n: int, samples: int) -> None:
    instance = random_instance(seed, n, samples=samples, ladder=(1, 2, 3, 4), tight=0.4)
    scheme = solve_exact(instance)
    assert not violations(instance, scheme)
    assert scheme.total_s == pytest.approx(min(every_scheme(instance)), rel=1e-9)


@given(st.integers(0, 2**32))
@settings(max_examples=8)
def test_no_scheme_of_three_workers_beats_it(seed: int) -> None:
    instance = random_instance(seed, 3, samples=7, ladder=(1, 3), tight=0.4, placements=1)
    assert solve_exact(instance).total_s == pytest.approx(min(every_scheme(instance)), rel=1e-9)


@given(st.integers(0, 2**32))
@settings(max_examples=50)
def test_removing_a_constraint_never_worsens_it(seed: int) -> None:
    instance = random_instance(seed, 4, tight=0.6)
    bound = solve_exact(instance)
    free = replace(instance, deadlines=np.full_like(instance.deadlines, np.inf))
    assert solve_exact(free).total_s <= bound.total_s * (1 + 1e-9)
    roomy = replace(instance, performance=replace(instance.performance, memory=np.full(4, 1e9)))  # type: ignore[type-var]
    assert solve_exact(roomy).total_s <= bound.total_s * (1 + 1e-9)


class RowWise:
    """A model that answers for one set of batches at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.compute_seconds, self.latencies = model.compute_seconds, model.latencies
        self.largest_batch = model.largest_batch

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        if batches.ndim > 1:
            raise ValueError("one row at a time")
        found: Floats = self.model.update_seconds(nodes, batches, servers)
        return found


def test_models_that_answer_row_by_row_will_do() -> None:
    instance = random_instance(3, 3)
    slow = replace(instance, performance=RowWise(instance.performance))
    assert solve_exact(slow).total_s == solve_exact(instance).total_s


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="9 nodes"):
        solve_exact(plain([1.0] * 9, 100, ladder=(1,)))


def test_what_binds_is_named() -> None:
    late = {"alone_s": np.array([[0.3], [0.25]]), "slope_s": np.zeros((2, 1))}
    with pytest.raises(Infeasible, match=r"app 'sift' on device 'w-1' binds: .* 250 ms .* 200 ms"):
        room(plain([1.0, 1.0], 10, apps=("sift",), deadlines=np.array(0.2), model=late))
    with pytest.raises(Infeasible, match="memory of device 'w-1' binds"):
        room(plain([1.0, 1.0], 10, batch_least=4, model={"memory": np.array([1.0, 2.0])}))
    with pytest.raises(Infeasible, match="least batch binds: 4 samples of 3"):
        room(plain([1.0], 3, batch_least=4))
