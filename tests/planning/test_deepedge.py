"""Deep-Edge's algorithm: what is wrong with it as printed, defect by defect, and right in the repaired one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import Oscillating, affine, plain, random_instance

from littoral.errors import Infeasible
from littoral.planning import deepedge
from littoral.planning.deepedge import solve, solve_fair, solve_paper
from littoral.planning.exact import solve_exact
from littoral.planning.instance import Array, Floats, Instance, Ints, Placement, evaluate, violations
from littoral.planning.room import room
from littoral.planning.shards import apportioned, draft
from littoral.planning.simple import alone

seeds = st.integers(0, 2**32)


@given(seeds, st.integers(1, 12))
def test_schemes_break_no_rule(seed: int, n: int) -> None:
    instance = random_instance(seed, n, tight=0.4)
    scheme = solve(instance)
    assert violations(instance, scheme) == []
    assert sum(scheme.shards) == instance.samples
    for shard, batch in zip(scheme.shards, scheme.batches, strict=True):
        assert type(shard) is int and type(batch) is int
        assert (shard == 0) == (batch == 0) and 0 <= batch <= shard
        assert not shard or instance.batch_least <= batch <= instance.batch_most


@given(seeds, st.integers(1, 8))
def test_never_worse_than_equal_shards_or_one_node(seed: int, n: int) -> None:
    instance = random_instance(seed, n)
    scheme, space = solve(instance), room(instance)
    assert scheme.total_s <= solve_fair(instance, feasible=True).total_s
    for node in space.nodes:
        for batch in space.rungs[space.allowed[:, node]]:
            shards, batches = np.zeros((2, n), dtype=int)
            shards[node], batches[node] = instance.samples, batch
            assert scheme.total_s <= evaluate(instance, shards, batches).total_s * (1 + 1e-9)


@given(seeds, st.integers(2, 8))
def test_burdens_differ_by_a_batch_at_most(seed: int, n: int) -> None:
    instance = random_instance(seed, n, samples=5000)
    scheme = solve(instance)
    busy = np.array(scheme.busy_s)[list(scheme.workers)]
    one = draft(instance, np.array(scheme.batches), scheme.servers)
    assert busy.max() - busy.min() <= 2 * one.full()[0, list(scheme.workers)].max()  # one short batch, one by rounding


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8), st.integers(100, 3000))
def test_a_slower_node_never_gets_a_larger_shard(forward: list[float], samples: int) -> None:
    scheme = solve(plain(forward, samples, ladder=(1, 4, 16)))
    for i, a in enumerate(forward):
        for j, b in enumerate(forward):
            assert not (a > b * (1 + 1e-9) and scheme.shards[i] > scheme.shards[j])


@given(st.integers(1, 1000), st.lists(st.floats(0.001, 1e3), min_size=1, max_size=20))
def test_largest_remainders_sum_exactly(samples: int, shares: list[float]) -> None:
    shards = apportioned(samples, np.array(shares))
    assert shards.sum() == samples
    assert np.all(np.abs(shards - np.array(shares) * samples / sum(shares)) < 1)


def test_the_papers_shards_without_load() -> None:
    """Section VI: step times of 1.89 s on a TX2 and 2.69 s on three Nanos, 3,855 samples."""
    instance = plain([1.89, 2.69, 2.69, 2.69], 3855, ladder=(1,))
    assert solve(instance).shards == (1240, 872, 872, 871)
    assert solve_fair(instance).total_s / solve(instance).total_s == pytest.approx(1.106, abs=0.002)


def test_defect_1_the_shards_saved_are_stale() -> None:
    instance = plain([1.0, 2.0], 300)
    printed = solve_paper(instance, tau=1)  # the guard stands in for infinities: everybody has everything
    assert printed.shards == (300, 300) and "shards sum to 600 of 300 samples" in violations(instance, printed)
    assert solve(instance).shards == (200, 100)


def late_app(alone_s: list[float], slope_s: float = 0.0) -> Instance:
    """Nodes alike with one app each, whose deadline is 0.2 s."""
    n = len(alone_s)
    model = {"alone_s": np.array(alone_s)[:, None], "slope_s": np.full((n, 1), slope_s)}
    return plain([1.0] * n, 64, apps=("sift",), deadlines=np.array(0.2), batch_most=16, model=model)


def test_defect_2_nobody_left_is_said_and_not_a_division_by_zero() -> None:
    with pytest.raises(Infeasible, match="leaves no worker"):  # by our guard
        solve_paper(late_app([0.3, 0.4]))
    with pytest.raises(Infeasible, match=r"app 'sift' on device 'w-0' binds"):
        solve(late_app([0.3, 0.4]))
    assert solve_paper(plain([1.0], 10, model={"backward_s": np.ones(1)})).shards == (10,)  # the last one is dropped


class Counting:
    """Counts what it is asked."""

    def __init__(self, model: Oscillating) -> None:
        self.model, self.calls = model, 0
        self.largest_batch, self.latencies = model.largest_batch, model.latencies

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        return self.model.compute_seconds(nodes, batches)

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        self.calls += 1
        return self.model.update_seconds(nodes, batches, servers)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_defect_3_a_model_that_swings_ends_within_n_tau_rounds(n: int) -> None:
    model = Counting(Oscillating(nodes=n))
    instance = Instance(names=tuple("abcdefgh"[:n]), samples=7 * n, performance=model)
    assert violations(instance, solve(instance)) == []
    pairs, extra = 64 * n, n * (n + 3)  # one node alone with each batch; judging and rounding, per round
    assert model.calls <= pairs + 2 * (n * deepedge.TAU + extra) + 2


def test_defect_3_as_printed_it_would_never_end() -> None:
    model = Counting(Oscillating(nodes=3))
    instance = Instance(names=("a", "b", "c"), samples=21, performance=model)
    solve_paper(instance, tau=3, epsilon=1e-9)
    assert model.calls > 3 * 3  # N tau
    assert model.calls >= 10 * 3 * 3  # only our guard ended it


def test_defect_4_a_node_removed_late_takes_its_samples_along() -> None:
    instance = late_app([0.1, 0.3])
    printed = solve_paper(instance, tau=2, epsilon=1e9)
    assert sum(printed.shards) != instance.samples
    scheme = solve(instance)
    assert scheme.shards == (64, 0) and violations(instance, scheme) == []


def test_defect_5_a_smaller_batch_saves_a_node() -> None:
    instance = late_app([0.1, 0.15], slope_s=0.01)  # 16 is too much for both; 10 and 5 are not
    with pytest.raises(Infeasible):
        solve_paper(instance)
    scheme = solve(instance)
    assert violations(instance, scheme) == [] and all(scheme.shards)
    assert scheme.batches[0] <= 10 and scheme.batches[1] <= 5


@given(seeds, st.permutations(range(5)))
@settings(max_examples=50)
def test_defect_6_the_order_of_nodes_plays_no_part(seed: int, order: list[int]) -> None:
    instance = random_instance(seed, 5, apps=1, tight=0.5)
    model = instance.performance
    turned = replace(
        instance, start_s=instance.start_s[order], deadlines=instance.deadlines[order],
        transfer_s_per_sample=instance.transfer_s_per_sample[:, order], usd_per_s=instance.usd_per_s[order],
        usd_per_sample=instance.usd_per_sample[:, order],
        performance=replace(  # type: ignore[type-var]
            model, **{name: getattr(model, name)[order] for name in
                      ("forward_s", "backward_s", "load", "memory", "alone_s", "slope_s")},
            reach_s=model.reach_s[:, order],  # type: ignore[attr-defined]
        ),
    )  # fmt: skip
    assert solve(turned).total_s == pytest.approx(solve(instance).total_s, rel=1e-9)


def test_defect_7_shards_and_batches_are_whole() -> None:
    state = deepedge._Printed(
        instance=(instance := plain([1.0, 2.0, 4.0], 100)), placement=0, limit=np.full(3, 64.0),
        late=np.zeros(3, dtype=bool), tau=5,
    )  # fmt: skip
    state.converge(0.5)
    assert not float(state.d[0]).is_integer()
    assert sum(solve(instance).shards) == 100


def test_defect_8_the_least_batch_counts() -> None:
    instance = plain([1.0, 40.0], 40, batch_least=4)
    printed = solve_paper(instance)
    assert any("below the least" in found for found in violations(instance, printed))
    assert violations(instance, solve(instance)) == [] and solve(instance).shards == (40, 0)


def test_defect_9_batches_are_not_capped_by_the_last_rounds_shards() -> None:
    """A node that was dropped leaves a shard to the others; their batches may grow at once."""
    instance = plain([1.0, 1.0, 3.0], 60, model={"backward_s": np.full(3, 8.0)})
    space = room(instance)
    batches, _ = deepedge.settle(instance, space, np.array([0]), 0)
    assert batches.tolist() == [60]
    state = deepedge._Printed(
        instance=instance, placement=0, limit=np.full(3, 64.0), late=np.zeros(3, dtype=bool), tau=50
    )
    state.converge(0.5)
    state.leave(np.array([1, 2]))
    state._share()
    assert state.b[0] < 60  # still the old shard


def test_defect_10_the_first_change_is_a_number() -> None:
    instance = plain([1.0, 2.0], 90)
    with np.errstate(invalid="raise"):
        solve(instance)
    state = deepedge._Printed(instance=instance, placement=0, limit=np.ones(2), late=np.zeros(2, dtype=bool), tau=1)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.linalg.norm(state.d - state.stale))  # where the printed one starts from


class Stairs:
    """Updates that get slower with four workers, and slower again with three, but quick with two."""

    def __init__(self) -> None:
        self.model = affine([0.01, 0.01, 0.01, 0.011])
        self.compute_seconds, self.latencies = self.model.compute_seconds, self.model.latencies
        self.largest_batch = self.model.largest_batch

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        return np.full(np.shape(batches), {1: 0.1, 2: 0.1, 3: 5.0, 4: 3.0}[batches.shape[-1]])


def test_defect_11_the_search_goes_on_after_a_round_that_is_no_better() -> None:
    instance = Instance(names=tuple("abcd"), samples=1000, performance=Stairs(), ladder=(10,), batch_most=10)
    assert len(solve_paper(instance).workers) == 4  # three are worse, so two are never tried
    assert len(solve(instance).workers) == 2
    assert solve(instance).total_s == pytest.approx(solve_exact(instance).total_s, rel=0.02)


class Harm:
    """Node 0 is quick and holds up everybody's updates; node 2 is the slowest."""

    def __init__(self) -> None:
        self.model = affine([0.1, 0.1, 0.12])
        self.compute_seconds, self.latencies = self.model.compute_seconds, self.model.latencies
        self.largest_batch = self.model.largest_batch

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        return np.full(np.shape(batches), 9.0 if 0 in nodes else 0.1)


def test_defect_12_the_most_harmful_may_be_quick() -> None:
    instance = Instance(names=tuple("abc"), samples=600, performance=Harm(), ladder=(10,), batch_most=10)
    one = draft(instance, np.array([10, 10, 10]), 0)
    assert deepedge.slowest(one, instance.nodes, 0).tolist() == [2]
    assert deepedge.most_harmful(one, instance.nodes, 0).tolist() == [0]
    assert 0 in solve_paper(instance).workers
    assert solve(instance).workers == (1, 2)


def test_defect_13_start_and_transfer_count() -> None:
    # T - 0 = d0 (1 + 0), T - 60 = d1 (1 + 1), d0 + d1 = 120: T = 100, d = 100 and 20
    changes = {"start_s": np.array([0.0, 60.0]), "transfer_s_per_sample": np.array([[0.0, 1.0]])}
    instance = plain([1.0, 1.0], 120, ladder=(1,), **changes)
    assert solve_paper(instance).shards == (60, 60)
    assert solve(instance).shards == (100, 20) and solve(instance).total_s == 100.0


def test_defect_14_equal_is_not_better() -> None:
    """Nodes whose updates take just as much longer as there are more of them: one fewer is the same."""
    instance = plain([0.0] * 3, 60, ladder=(1,), batch_most=1, model={"worker_s": 1.0})
    times = [scheme.total_s for scheme in deepedge._rounds(instance, room(instance), 0, deepedge.slowest)]
    assert times == pytest.approx([60.0] * 3)
    assert solve(instance).total_s == alone(instance, room(instance)).total_s == 60.0


@given(seeds)
def test_defect_20_updates_see_only_summaries(seed: int) -> None:
    instance = random_instance(seed, 5)
    batches, order = np.array([2, 4, 8, 16, 32]), np.random.default_rng(seed).permutation(5)
    ask = instance.performance.update_seconds
    turned = ask(instance.nodes[order], batches[order], (0,))
    assert turned == pytest.approx(ask(instance.nodes, batches, (0,))[order])


def test_fair_reports_what_it_breaks() -> None:
    instance = late_app([0.1, 0.3])
    assert violations(instance, solve_fair(instance)) == ["app 'sift' misses its deadline on 'w-1'"]
    assert violations(instance, solve_fair(instance, feasible=True)) == []


@given(seeds)
def test_the_printed_one_always_ends(seed: int) -> None:
    try:
        solve_paper(random_instance(seed))
    except Infeasible as refusal:
        assert "leaves no worker" in str(refusal)
