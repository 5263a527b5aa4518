"""The fastest weights on a graph, and the fastest graph over a continuum."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.planning.fast_links import KNEE, fast_links, fastest_mixing, score
from littoral.planning.graphs import Graph, complete, components, graph_of, random_regular, ring, star
from littoral.planning.mixing import Weights, best_constant, contraction, matrix, metropolis
from littoral.planning.topology import RoundSeconds, check, gap, make_topology


def names(n: int) -> list[str]:
    return [f"n-{i}" for i in range(n)]


def path(n: int) -> Graph:
    return graph_of(names(n), ((i, i + 1) for i in range(n - 1)))


def barbell(half: int) -> Graph:
    inside = [(i + at, j + at) for at in (0, half) for i in range(half) for j in range(i)]
    return graph_of(names(2 * half), [*inside, (half - 1, half)])


def rho(weights: Weights) -> float:
    return contraction(matrix(weights))


@st.composite
def connected(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(2, 8))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=10))
    return graph_of(names(n), [*tree, *more])


@given(connected())
def test_fastest_weights_are_valid_and_never_worse(graph: Graph) -> None:
    plain, constant, fastest = metropolis(graph), best_constant(graph), fastest_mixing(graph)
    for weights in (plain, constant, fastest):
        dense = matrix(weights)
        assert dense.min() >= 0 and (dense == dense.T).all()
        assert dense.sum(axis=0) == pytest.approx(1.0)
    arcs = {(i, j) for i, row in fastest.items() for j in row if i < j}
    assert arcs <= graph.edges
    assert rho(fastest) <= rho(plain)
    assert rho(fastest) <= rho(constant) + 1e-5


@pytest.mark.parametrize("n", [3, 4, 8, 16])
def test_fastest_on_a_path_is_the_known_chain(n: int) -> None:
    """Half to each neighbour, the ends half to themselves: cos(pi/n) (Boyd, Diaconis, Sun & Xiao 2006)."""
    assert rho(fastest_mixing(path(n))) == pytest.approx(math.cos(math.pi / n), abs=1e-5)


def test_fastest_on_a_barbell_leans_on_the_bridge() -> None:
    graph = barbell(5)
    plain, fastest = metropolis(graph), fastest_mixing(graph)
    assert 1 - rho(fastest) > 1.5 * (1 - rho(plain))
    assert fastest["n-4"]["n-5"] > plain["n-4"]["n-5"]
    assert gap(make_topology("ring", names(8), weights="fastest")) > gap(make_topology("ring", names(8))) + 0.05


def test_best_constant_on_known_graphs() -> None:
    levels = [2 - 2 * math.cos(2 * math.pi * k / 7) for k in range(7)]  # of the Laplacian of a ring
    low, high = sorted(levels)[1], max(levels)
    assert rho(best_constant(ring(names(7)))) == pytest.approx((high - low) / (high + low))
    assert rho(best_constant(star(names(6)))) == pytest.approx(1 - 1 / 5)  # more would leave the hub less than nothing


def test_the_fastest_weights_of_sixty_four_nodes() -> None:
    graph = random_regular(names(64), 4)
    assert 1 - rho(fastest_mixing(graph)) > 1.2 * (1 - rho(metropolis(graph)))


def two_sites(n: int, wan: float, lan: float = 0.1) -> tuple[list[str], dict[str, str], RoundSeconds]:
    """Sites whose nodes alternate in the list; a model takes ``lan`` seconds at a port and ``wan`` between sites."""
    nodes = names(n)
    sites = {node: "ab"[i % 2] for i, node in enumerate(nodes)}

    def seconds(edges: frozenset[tuple[str, str]]) -> float:
        ports = Counter(end for edge in edges for end in edge)
        far = sum(sites[a] != sites[b] for a, b in edges)
        return 0.5 + max(wan * far, lan * max(ports.values()))

    return nodes, sites, seconds


@pytest.mark.parametrize("given_sites", [True, False])
@pytest.mark.parametrize("n", [6, 12])
def test_over_a_thin_link_it_beats_ring_and_complete(n: int, given_sites: bool) -> None:
    nodes, sites, seconds = two_sites(n, wan=2.0)
    choice = fast_links(nodes, seconds, sites=sites if given_sites else None)
    rows = {row.name: row for row in choice.rows}
    best = rows["fast-links"]
    check(choice.topology)
    assert best.score > 1.2 * rows["ring"].score and best.score > 1.2 * rows["complete"].score
    assert best is choice.rows[0] and best.score == max(row.score for row in choice.rows)
    assert best.gap == pytest.approx(gap(choice.topology))
    used = frozenset((a, b) for a, b in choice.topology.arcs() if nodes.index(a) < nodes.index(b))
    assert best.seconds == seconds(used) and best.score == pytest.approx(score(1 - best.gap, best.seconds))


def test_where_links_are_free_everyone_talks_to_everyone() -> None:
    choice = fast_links(names(24), lambda edges: 1.0)  # of equal scores the more exact one wins
    assert gap(choice.topology) == 1.0 and len(choice.topology.arcs()) == 24 * 23


def test_search_goes_beyond_what_it_begins_with() -> None:
    """Ports of one node are slow: known graphs load it, or leave the others too far apart."""

    def seconds(edges: frozenset[tuple[str, str]]) -> float:
        ports = [end for edge in edges for end in edge]
        return 0.2 + max(ports.count(node) * (0.3 if node == "n-4" else 0.1) for node in set(ports))

    choice = fast_links(names(9), seconds)
    assert choice.rows[0].score > 1.4 * choice.rows[1].score
    assert len(choice.topology.neighbours("n-4")) == 2
    assert choice.rows[0].seconds == pytest.approx(0.8)  # as a ring's, with links elsewhere that cost nothing
    assert choice.rows[0].gap > 2 * 0.215


def test_a_candidate_of_ones_own_counts() -> None:
    mine = Graph(tuple(names(6)), frozenset(graph_of(names(6), [(0, 3), (3, 5), (5, 1), (1, 4), (4, 2)]).edges))
    choice = fast_links(names(6), lambda edges: 1.0 if edges <= mine.edges else 1e4, candidates={"mine": mine})
    assert "mine" in {row.name for row in choice.rows}
    assert choice.topology.arcs() <= {arc for a, b in mine.edges for arc in ((a, b), (b, a))}


@given(st.integers(2, 6), st.lists(st.floats(0.1, 100), min_size=15, max_size=15))
def test_any_times_give_a_valid_topology_no_worse_than_any_row(n: int, times: list[float]) -> None:
    pairs = dict(zip(sorted(complete(names(6)).edges), times, strict=True))

    def seconds(edges: frozenset[tuple[str, str]]) -> float:
        return max(pairs[edge] for edge in edges)

    choice = fast_links(names(n), seconds)
    check(choice.topology)
    assert len(components(choice.topology.nodes, choice.topology.arcs())) == 1
    assert choice.rows[0].score >= max(row.score for row in choice.rows)


def test_the_same_times_give_the_same_topology() -> None:
    nodes, sites, seconds = two_sites(8, wan=1.0)
    assert fast_links(nodes, seconds, sites=sites) == fast_links(nodes, seconds, sites=sites)


def test_thirty_two_nodes_are_joined_better_than_by_a_ring() -> None:
    nodes, sites, seconds = two_sites(32, wan=1.0)
    choice = fast_links(nodes, seconds, sites=sites)
    assert choice.rows[0].score > 1.5 * next(row.score for row in choice.rows if row.name == "ring")


def test_an_exact_round_is_not_worth_any_time() -> None:
    assert score(1 - KNEE, 1.0) == pytest.approx(0.5)
    assert score(0.0, 1.0) < 1.1 * score(0.5, 1.0) < score(0.5, 0.5)  # beyond some agreement, only speed counts
    assert score(1.0, 1.0) == 0.0


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="between 'n-0' and 'n-1' takes inf s"):
        fast_links(names(3), lambda edges: math.inf)
