"""Topologies: their sums and gaps, what is refused and why, and what is left after links and nodes are lost."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.planning.graphs import components
from littoral.planning.mixing import Weights, contraction, matrix
from littoral.planning.topology import (
    GRAPHS,
    SCHEMES,
    Topology,
    check,
    gap,
    make_topology,
    repaired,
    symmetric,
    without_links,
    without_nodes,
)

NAMES = [*GRAPHS, *SCHEMES, "fast-links"]
REFUSED = {"hypercube": lambda n: n & (n - 1), "double-ring": lambda n: n % 2}  # over which numbers of nodes
examples = settings()


def names(n: int) -> list[str]:
    return [f"n-{i}" for i in range(n)]


def sites_of(nodes: list[str]) -> dict[str, str]:
    return {node: f"site-{i % 3}" for i, node in enumerate(nodes)}


def by_links(edges: frozenset[tuple[str, str]]) -> float:
    return 1.0 + 0.1 * len(edges)


def made(name: str, n: int, **more: Any) -> Topology:
    nodes = names(n)
    return make_topology(name, nodes, **{"sites": sites_of(nodes), "round_seconds": by_links, **more})


def sums(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    dense = matrix(weights)
    return dense.sum(axis=1), dense.sum(axis=0)


def is_doubly(weights: Weights) -> bool:
    return all(np.allclose(found, 1.0, rtol=0, atol=1e-9) for found in sums(weights)) and matrix(weights).min() >= 0


@st.composite
def topologies(draw: st.DrawFn, most: int = 20) -> Topology:
    name = draw(st.sampled_from([name for name in NAMES if name != "fast-links"]))
    n = draw(st.integers(2, most).filter(lambda n: not REFUSED.get(name, lambda n: False)(n)))
    seed = draw(st.integers(0, 5)) if name in ("random-regular", "equistatic") else 0
    degree = draw(st.sampled_from([None, 1, 2, 3])) if name == "base-k" else None
    return made(name, n, seed=seed, degree=degree)


@pytest.mark.parametrize("name", NAMES)
def test_every_topology_keeps_the_mean_and_connects_all(name: str) -> None:
    for n in range(1, 21) if name != "fast-links" else (1, 2, 3, 5, 8):
        if n > 1 and REFUSED.get(name, lambda n: False)(n):
            with pytest.raises(InputError, match=f"needs .* of nodes, not {n}; take "):
                made(name, n)
            continue
        topology = made(name, n)
        assert topology.nodes == tuple(names(n))
        assert all(is_doubly(weights) for weights in topology.rounds), n
        assert len(components(topology.nodes, topology.arcs())) == 1
        assert gap(topology) > 0
        for node in topology.nodes:
            assert all(topology.weights(node, r).keys() == {node, *topology.senders(node, r)} for r in range(3))


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        *(("ring", n, 2 * (1 - math.cos(2 * math.pi / n)) / 3) for n in (8, 16, 32)),
        ("ring", 8, 0.1953), ("ring", 16, 0.0507), ("ring", 32, 0.0128),
        ("ring-based", 8, 0.5), ("ring-based", 16, 0.1464), ("double-ring", 16, 0.4),
        ("torus", 16, 0.4), ("torus", 32, 0.1172), ("hypercube", 8, 0.5),
        ("star", 8, 1 / 8), ("complete", 7, 1.0),
        ("exponential", 8, 0.5), ("exponential", 16, 0.4), ("exponential", 32, 1 / 3),
    ],
)  # fmt: skip
def test_gaps_are_those_of_the_literature(name: str, n: int, expected: float) -> None:
    assert gap(made(name, n)) == pytest.approx(expected, abs=5e-5)


def test_the_gap_of_many_rounds_is_per_round() -> None:
    twice = Topology(name="twice", rounds=made("ring", 8).rounds * 2)
    assert gap(twice) == pytest.approx(gap(made("ring", 8)))


def test_base_two_is_exact_for_any_number_in_the_known_rounds() -> None:
    for n in range(2, 70):
        topology = made("base-k", n)
        twos = (n & -n).bit_length() - 1
        odd = n >> twos
        assert topology.period == (twos if odd == 1 else 2 * (odd.bit_length() - 1) + 1 + twos), n
        assert gap(topology) == 1.0, n
        assert max(len(row) for weights in topology.rounds for row in weights.values()) == 2
    known = {3: 3, 5: 5, 6: 4, 7: 5, 9: 7, 10: 6, 12: 5, 20: 7, 24: 6, 25: 9, 48: 7}
    assert {n: made("base-k", n).period for n in known} == known


@examples
@given(st.integers(2, 40), st.integers(1, 5))
def test_base_k_is_exact_with_k_neighbours(n: int, degree: int) -> None:
    topology = made("base-k", n, degree=degree)
    assert gap(topology) == 1.0
    assert max(len(row) for weights in topology.rounds for row in weights.values()) <= degree + 1


def test_base_k_takes_the_shorter_of_its_two_ways() -> None:
    """22 with four neighbours is 4*5 + 2: 2 rounds, one to spread, one more; two groups of 11 = 2*5 + 1 need 4 + 1."""
    assert made("base-k", 22, degree=4).period == 4


@pytest.mark.parametrize("n", range(2, 34))
def test_one_peer_exponential_is_exact_for_powers_of_two_alone(n: int) -> None:
    assert (gap(made("one-peer-exponential", n)) == 1.0) == (n & (n - 1) == 0)


def test_one_peer_exponential_of_twelve_leaves_a_fifth() -> None:
    topology = made("one-peer-exponential", 12)
    product = np.linalg.multi_dot([matrix(weights) for weights in topology.rounds])
    assert topology.period == 4 and contraction(product) == pytest.approx(0.21, abs=0.005)


@examples
@given(st.integers(4, 20), st.integers(2, 19), st.integers(0, 100))
def test_random_regular_is_regular_connected_and_its_seed_decides(n: int, degree: int, seed: int) -> None:
    if degree >= n or n * degree % 2:
        with pytest.raises(InputError, match="neighbours each"):
            made("random-regular", n, degree=degree)
        return
    topology = made("random-regular", n, degree=degree, seed=seed)
    assert {len(topology.neighbours(node)) for node in topology.nodes} == {degree}
    assert topology == made("random-regular", n, degree=degree, seed=seed)


def test_seeds_differ() -> None:
    for name in ("random-regular", "equistatic"):
        assert len({frozenset(made(name, 20, degree=3, seed=seed).arcs()) for seed in range(5)}) > 1


def test_who_sends_to_whom() -> None:
    topology = made("one-peer-exponential", 8)
    assert topology.senders("n-3", 1) == ("n-1",) and topology.receivers("n-3", 1) == ("n-5",)
    assert topology.senders("n-3", 4) == topology.senders("n-3", 1)
    assert topology.neighbours("n-3") == ("n-1", "n-2", "n-4", "n-5", "n-7")
    assert topology.weights("n-3", 0) == {"n-3": 0.5, "n-2": 0.5}
    assert not topology.is_symmetric and made("base-k", 6).is_symmetric


def test_a_site_tree_crosses_sites_between_heads_alone_and_by_the_quickest_links() -> None:
    nodes = ["a1", "b1", "c1", "a2", "b2", "c2"]
    sites = {node: node[0] for node in nodes}
    slow = {("a1", "b1"): 9.0, ("a1", "c1"): 1.0, ("b1", "c1"): 2.0}

    def crossing(**more: Any) -> set[tuple[str, str]]:
        arcs = make_topology("site-tree", nodes, sites=sites, **more).arcs()
        return {(a, b) for a, b in arcs if a[0] != b[0] and a < b}

    assert crossing() == {("a1", "b1"), ("a1", "c1")}
    assert crossing(round_seconds=lambda edges: sum(slow[edge] for edge in edges)) == {("a1", "c1"), ("b1", "c1")}


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("rnig", {}, "unknown topology 'rnig'; did you mean 'ring'"),
        ("ring", {"degree": 2}, "ring takes no degree"),
        ("ring", {"weights": "fast"}, "unknown weights 'fast'; did you mean 'fastest'"),
        ("exponential", {"weights": "fastest"}, "brings its own weights"),
        ("base-k", {"degree": 0}, "degree of 0"),
        ("equistatic", {"degree": 6}, "between 1 and 5"),
        ("random-regular", {"degree": 1}, "between 2 and 5"),
        ("site-tree", {"sites": None}, "needs the site of every node"),
        ("site-tree", {"sites": {"n-0": "a"}}, "'n-1' has no site"),
        ("fast-links", {"round_seconds": None}, "needs the seconds of a round"),
        ("fast-links", {"round_seconds": lambda edges: 0.0}, "takes 0.0 s"),
    ],
)
def test_wrong_wishes_are_refused_with_the_reason(name: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        made(name, 6, **more)


@pytest.mark.parametrize(("nodes", "reason"), [([], "no nodes"), (["a", "b", "a"], "a node twice")])
def test_nodes_are_named_once(nodes: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_topology("ring", nodes)


BAD: list[tuple[str, str, list[Weights]]] = [
    ("doubly", "not connected: 'a' never reaches 'c'",
     [{"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}, "c": {"c": 1.0}}]),
    ("column", "not connected: 'b' never reaches 'a'", [{"a": {"a": 0.5}, "b": {"a": 0.5, "b": 1.0}}]),
    ("doubly", "the row of 'a' sums to 0.9,", [{"a": {"a": 0.4, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}}]),
    ("doubly", "the column of 'a' sums to 1.2,", [{"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.7, "b": 0.3}}]),
    ("column", "the column of 'b' sums to 1.1,", [{"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.6}}]),
    ("doubly", "'a' gives 'b' a weight of -0.5", [{"a": {"a": 1.5, "b": -0.5}, "b": {"a": -0.5, "b": 1.5}}]),
    ("doubly", "'a' gives 'b' a weight of nan", [{"a": {"a": 0.5, "b": math.nan}, "b": {"a": 0.5, "b": 0.5}}]),
    ("doubly", "no spectral gap", [{"a": {"b": 1.0}, "b": {"a": 1.0}}]),
    ("column", "no spectral gap", [{"a": {"b": 1.0}, "b": {"a": 1.0}}]),
    ("doubly", "round 1 is not over the same nodes", [{"a": {"a": 1.0}}, {"b": {"b": 1.0}}]),
    ("doubly", "no rounds, or nobody", []),
    ("doubly", "round 0 is not over the same nodes", [{"a": {"b": 1.0}}]),
]  # fmt: skip


@pytest.mark.parametrize(("mixing", "reason", "rounds"), BAD)
def test_what_would_never_agree_is_refused_with_the_reason(mixing: Any, reason: str, rounds: list[Weights]) -> None:
    with pytest.raises(InputError, match=reason):
        check(Topology(name="bad", rounds=tuple(rounds)), mixing)


def test_columns_are_enough_for_push_sum() -> None:
    uneven = Topology(name="uneven", rounds=({"a": {"a": 0.5, "b": 0.3}, "b": {"a": 0.5, "b": 0.7}},))
    check(uneven, "column")
    assert gap(uneven) == pytest.approx(1 - 0.2)  # eigenvalues 1 and 0.2
    with pytest.raises(InputError, match="row of 'a' sums to 0\\.8"):
        check(uneven, "doubly")


def test_parts_that_meet_in_other_rounds_are_connected() -> None:
    first = {"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}, "c": {"c": 1.0}}
    second = {"a": {"a": 1.0}, "b": {"b": 0.5, "c": 0.5}, "c": {"b": 0.5, "c": 0.5}}
    check(Topology(name="in turn", rounds=(first, second)))


@examples
@given(topologies(), st.data())
def test_dropped_links_keep_the_sums(topology: Topology, data: st.DataObject) -> None:
    weights = data.draw(st.sampled_from(topology.rounds))
    pair = st.tuples(st.sampled_from(topology.nodes), st.sampled_from(topology.nodes))
    dropped = data.draw(st.lists(pair, max_size=30))
    left = without_links(weights, dropped)
    assert np.allclose(sums(left)[1], 1.0)
    assert not symmetric(weights) or (symmetric(left) and is_doubly(left))
    for sender, receiver in dropped:
        assert sender == receiver or sender not in left[receiver]
        assert sender == receiver or not symmetric(weights) or receiver not in left[sender]
    kept = {(i, j) for i in weights for j in weights[i]} - {(r, s) for s, r in dropped} - set(dropped)
    assert all(left[i][j] == weights[i][j] for i, j in kept if i != j)


@examples
@given(topologies(), st.data())
def test_a_group_that_changes_keeps_a_valid_topology(topology: Topology, data: st.DataObject) -> None:
    stay = data.draw(st.sets(st.sampled_from(topology.nodes)))
    come = data.draw(st.sets(st.sampled_from(["new-1", "new-2", "new-3"]), min_size=not stay))
    found = repaired(topology, stay | come)
    assert set(found.nodes) == stay | come
    check(found)
    assert all(is_doubly(weights) for weights in found.rounds)


@examples
@given(topologies(), st.data())
def test_nodes_that_leave_disturb_nobody_else(topology: Topology, data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(topology.nodes))
    if len(topology.nodes) == 2:
        return
    left = without_nodes(topology, {gone})
    for before, after in zip(topology.rounds, left.rounds, strict=True):
        assert is_doubly(after)
        for node in left.nodes:
            assert len(after[node]) <= len(before[node]) + (not symmetric(before))
            assert all(after[node][other] >= w for other, w in before[node].items() if other != gone)


def test_in_which_order_nodes_are_named_that_leave_does_not_matter() -> None:
    assert without_nodes(made("exponential", 9), ["n-0", "n-4"]) == without_nodes(
        made("exponential", 9), ["n-4", "n-0"]
    )


def test_push_sum_gives_back_what_was_sent_to_a_node_that_left() -> None:
    shares = {"a": {"a": 0.5, "b": 0.2}, "b": {"a": 0.25, "b": 0.3, "c": 0.6}, "c": {"a": 0.25, "b": 0.5, "c": 0.4}}
    left = without_nodes(Topology(name="shares", rounds=(shares,)), {"c"})
    assert left.rounds == ({"a": {"a": 0.75, "b": 0.2}, "b": {"a": 0.25, "b": 0.8}},)
    check(left, "column")


def test_a_directed_link_that_falls_leaves_the_mass_with_its_sender() -> None:
    weights = made("exponential", 5).rounds[0]
    left = without_links(weights, {("n-0", "n-1")})
    assert left["n-0"]["n-0"] == pytest.approx(0.5) and "n-0" not in left["n-1"]
    assert weights["n-0"]["n-0"] == 0.25  # what was handed in stays as it was


def test_a_star_without_its_hub_is_a_ring() -> None:
    assert repaired(made("star", 6), names(6)[1:]).rounds == make_topology("ring", names(6)[1:]).rounds
    with pytest.raises(InputError, match="nobody is left"):
        repaired(made("star", 6), [])


def test_rounds_in_turn_that_fall_apart_get_one_more() -> None:
    topology = made("base-k", 5)
    found = repaired(topology, ["n-0", "n-3", "n-4", "new"])
    assert found.rounds[:-1] == tuple(
        weights | {"new": {"new": 1.0}} for weights in without_nodes(topology, {"n-1", "n-2"}).rounds
    )
    assert found.rounds[-1] == make_topology("ring", ["n-0", "n-3", "n-4", "new"]).rounds[0]


def test_sites_without_a_head_keep_their_links_and_join_the_ring() -> None:
    nodes = ["a1", "a2", "a3", "b1", "b2", "b3"]
    topology = make_topology("site-tree", nodes, sites={node: node[0] for node in nodes})
    found = repaired(topology, nodes[1:])
    check(found)
    assert {("a2", "a3"), ("b1", "b3")} <= found.arcs() and ("a3", "b1") in found.arcs()


@examples
@given(topologies(most=8))
def test_a_topology_is_read_back_as_it_was_saved(topology: Topology) -> None:
    saved = msgspec.json.encode(msgspec.to_builtins(topology))
    assert msgspec.convert(msgspec.json.decode(saved), Topology) == topology


def test_push_sum_may_use_every_topology() -> None:
    for name in NAMES:
        if name != "fast-links":
            assert made(name, 8, mixing="column") == made(name, 8)
    shares = made("exponential", 9, mixing="column")
    assert {w for row in shares.rounds[0].values() for w in row.values()} == {1 / (len(shares.receivers("n-0", 0)) + 1)}
