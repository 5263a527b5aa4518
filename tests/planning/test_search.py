"""The search: keeps every rule, loses to none of the simple answers, stays near the optimum; cost and fairness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from instances import Oscillating, plain, random_instance

from littoral.errors import Infeasible, InputError
from littoral.planning.deepedge import solve, solve_fair
from littoral.planning.exact import solve_exact
from littoral.planning.frontier import jain, smallest_share
from littoral.planning.instance import Instance, evaluate, violations
from littoral.planning.room import room
from littoral.planning.search import pareto, search
from littoral.planning.shards import draft, relaxed, whole

seeds = st.integers(0, 2**32)


@given(seeds, st.integers(1, 4))
@settings(max_examples=60)
def test_schemes_break_no_rule_and_lose_to_no_simple_answer(seed: int, n: int) -> None:
    instance = random_instance(seed, n, tight=0.4)
    scheme = search(instance)
    assert violations(instance, scheme) == [] and sum(scheme.shards) == instance.samples
    again = evaluate(instance, scheme.shards, scheme.batches, scheme.servers, scheme.stores)
    assert replace(again, reasons=scheme.reasons) == scheme
    for placement in range(2):
        assert scheme.total_s <= solve_fair(instance, placement=placement, feasible=True).total_s * (1 + 1e-9)
    assert scheme.total_s <= solve(instance).total_s


@pytest.mark.parametrize("n", [17, 40, 150])
def test_many_nodes(n: int) -> None:
    for seed, samples in ((0, 50 * n), (1, 3 * n)):
        instance = random_instance(seed, n, samples=samples)
        scheme = search(instance)
        assert violations(instance, scheme) == []
        assert scheme.total_s <= solve(instance).total_s


@given(seeds)
@settings(max_examples=25)
def test_it_is_near_the_optimum(seed: int) -> None:
    instance = random_instance(seed, 4)
    optimum = solve_exact(instance).total_s
    assert optimum * (1 - 1e-9) <= search(instance).total_s <= optimum * 1.05


@given(seeds, st.integers(2, 6))
def test_everybody_ends_within_a_batch_of_the_last(seed: int, n: int) -> None:
    instance = random_instance(seed, n, samples=2000)
    batches = room(instance).largest(instance.nodes, 32)
    one = draft(instance, batches, 0)
    times, shards = whole(one)
    finish, used = one.finish(shards)[0], batches > 0
    assert shards.sum() == instance.samples and relaxed(one)[0] <= times[0] * (1 + 1e-9)
    more = (shards[0] > batches) & used  # who has just its one batch may end early
    assert np.all(finish[more] >= times[0] - one.full()[0][more] - 1e-9)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=4), st.integers(50, 2000))
@settings(max_examples=60)
@example([0.234375, 0.234375, 0.2265625], 50)  # equal shards are as soon done
def test_a_slower_node_never_gets_a_larger_shard(forward: list[float], samples: int) -> None:
    scheme = search(plain(forward, samples, ladder=(4,)))
    for i, a in enumerate(forward):
        for j, b in enumerate(forward):
            assert not (a > b * (1 + 1e-9) and scheme.shards[i] > scheme.shards[j])


@pytest.mark.parametrize("n", [2, 5, 8, 20])
def test_it_ends_with_a_model_that_swings(n: int) -> None:
    names = tuple(f"w-{i}" for i in range(n))
    instance = Instance(names=names, samples=21, performance=Oscillating(nodes=n))
    assert violations(instance, search(instance)) == []


def test_servers_are_placed_and_stores_are_chosen() -> None:
    reach = np.array([[1.0, 1.0], [0.1, 0.1]])  # the second server is nearer
    transfer = np.array([[0.0, 5.0], [5.0, 0.0]])  # each node has a store of its own
    instance = plain(
        [0.1, 0.1], 100, ladder=(10,), server_choices=((0,), (1,)), transfer_s_per_sample=transfer,
        model={"reach_s": reach},
    )  # fmt: skip
    scheme = search(instance)
    assert (scheme.servers, scheme.stores, scheme.shards) == (1, (0, 1), (50, 50))
    assert scheme.total_s == pytest.approx(5 * (10 * 0.1 + 0.1))


def test_more_servers_are_used_where_they_help() -> None:
    instance = plain([0.01] * 4, 400, ladder=(10,), server_choices=((0,), (0, 1)),
                     model={"reach_s": np.zeros((2, 4)), "worker_s": 1.0})  # fmt: skip
    assert search(instance).servers == 1


def test_a_smaller_batch_is_tried_before_a_node_is_dropped() -> None:
    app = {"alone_s": np.full((2, 1), 0.1), "slope_s": np.array([[0.0], [0.01]])}
    instance = plain([1.0, 1.0], 64, apps=("sift",), deadlines=np.array(0.2), batch_most=32, model=app)
    scheme = search(instance)
    assert scheme.shards[1] > 0 and 0 < scheme.batches[1] <= 10


def two_nodes(samples: int = 100) -> Instance:
    """a: 1 s per sample at 0.003 USD/s; b: 2 s per sample at 0.001 USD/s; nothing else costs."""
    return plain([1.0, 2.0], samples, ladder=(1,), usd_per_s=np.array([0.003, 0.001]))


def test_cost_of_two_nodes_by_hand() -> None:
    instance = two_nodes()
    # All on b: 200 s * 0.001 = 0.2 USD; all on a: 100 s * 0.003 = 0.3 USD; both are paid to the end: T * 0.004.
    cheap = search(instance, "cost")
    assert cheap.shards == (0, 100) and cheap.total_s == 200.0 and cheap.cost_usd == pytest.approx(0.2)
    # In 120 s, b alone does 60 samples. With both, T * 0.004 is least for the least T: 67 on a and 33 on b, 67 s.
    within = search(instance, "cost", time_limit_s=120.0)
    assert within.shards == (67, 33) and within.total_s == 67.0 and within.cost_usd == pytest.approx(0.268)
    # Fair enough to need both, by any time: the same, as the price of both counts to the end.
    shared = search(instance, "cost", time_limit_s=120.0, fairness_floor=0.95)
    assert shared.shards == (67, 33) and jain(shared, np.arange(2)) > 0.95
    # Soonest: the same.
    soon = search(instance)
    assert soon.shards == (67, 33) and soon.total_s == 67.0 and soon.cost_usd == pytest.approx(0.268)


def test_data_and_servers_cost_too() -> None:
    # 10 samples on the one node: 10 s * 0.01 + 10 * 0.002 (data) + 10 s * 2 servers * 0.005 = 0.1 + 0.02 + 0.1 USD
    prices = {"usd_per_s": np.array([0.01]), "usd_per_sample": np.array([[0.002]])}
    instance = plain([1.0], 10, ladder=(1,), server_choices=((0, 0),), server_usd_per_s=np.array(0.005), **prices)
    assert search(instance).cost_usd == pytest.approx(0.22)


def test_fairness_of_two_nodes_by_hand() -> None:
    instance, both = two_nodes(), np.arange(2)
    # Equal shards: burdens 50 s and 100 s; Jain (150)^2 / (2 * (2,500 + 10,000)) = 22,500 / 25,000 = 0.9; least 1/3.
    equal = solve_fair(instance)
    assert jain(equal, both) == pytest.approx(0.9) and smallest_share(equal, both) == pytest.approx(1 / 3)
    # One alone: Jain 1/2, least share 0.
    alone = evaluate(instance, (100, 0), (1, 0))
    assert jain(alone, both) == 0.5 and smallest_share(alone, both) == 0.0
    # 99 samples: 66 on a and 33 on b take 66 s each: Jain 1, each carries one half.
    fair = search(two_nodes(99), "fairness")
    assert fair.shards == (66, 33) and jain(fair, both) == 1.0 and smallest_share(fair, both) == 0.5


def test_limits_that_bind_are_named() -> None:
    instance = two_nodes()
    with pytest.raises(Infeasible, match=r"time binds: 1.12 min at best, the limit is 1 min"):
        search(instance, "cost", time_limit_s=60.0)
    with pytest.raises(Infeasible, match=r"cost binds: 0.2 USD at best, the limit is 0.1 USD"):
        search(instance, cost_limit_usd=0.1)
    with pytest.raises(Infeasible, match=r"cost binds: 0.268 USD at best"):  # both for 67 s
        search(instance, cost_limit_usd=0.2, time_limit_s=100.0)
    with pytest.raises(Infeasible, match=r"fairness binds: 0.99994 at best, the floor is 1"):  # burdens 67 and 66
        search(instance, "cost", fairness_floor=1.0)
    with pytest.raises(Infeasible, match="bind together"):
        search(instance, cost_limit_usd=0.2, fairness_floor=0.99)
    with pytest.raises(InputError, match="objective"):
        search(instance, "beauty")  # type: ignore[arg-type]


@given(seeds)
@settings(max_examples=8)
def test_limits_are_kept(seed: int) -> None:
    instance = random_instance(seed, 3)
    soon, cheap = search(instance), search(instance, "cost")
    nodes = room(instance).nodes
    assert cheap.cost_usd <= soon.cost_usd * (1 + 1e-9)
    limit = (soon.total_s + cheap.total_s) / 2
    within = search(instance, "cost", time_limit_s=limit)
    assert within.total_s <= limit * (1 + 1e-6) and cheap.cost_usd <= within.cost_usd * (1 + 1e-9)
    fair = search(instance, "fairness")
    floor = 0.9 * jain(fair, nodes)
    assert jain(search(instance, "cost", fairness_floor=floor), nodes) >= floor * (1 - 1e-6)
    assert smallest_share(fair, nodes) >= smallest_share(soon, nodes) - 1e-6
    for scheme in (cheap, within, fair):
        assert violations(instance, scheme) == []


@given(seeds)
@settings(max_examples=15)
def test_none_of_the_front_beats_another(seed: int) -> None:
    instance = random_instance(seed, 3)
    nodes = room(instance).nodes
    front = pareto(instance, points=10)
    assert 1 <= len(front) <= 10
    assert front[0].total_s == pytest.approx(search(instance).total_s)
    rows = np.array([[s.total_s, s.cost_usd, -jain(s, nodes)] for s in front])
    for a in rows:
        assert not any((b <= a).all() and (b < a).any() for b in rows)
