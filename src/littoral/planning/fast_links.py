"""The graph, and the weights on it, with which nodes learn most in a second, rather than in a round.

A graph with a large spectral gap is slow if it lies over one thin link, and decentralised SGD learns as synchronous SGD
does once its models agree well enough: more of a gap then earns nothing. So graphs are compared by rounds per
second times a worth of rounds that saturates, gap^2 / (gap^2 + KNEE^2): the time that gossip needs before it learns
like synchronous SGD falls with the square of the gap (Lian et al. 2017). After Xiao & Boyd 2004 for the weights;
Marfoq et al., "Throughput-optimal topology design for cross-silo federated learning" (2020), and Hop's placement study
for the question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

import numpy as np

from littoral.errors import InputError
from littoral.planning import graphs
from littoral.planning.graphs import Edge, Graph
from littoral.planning.mixing import (
    Array,
    Weights,
    edge_contraction,
    ends_of,
    metropolis_shares,
    symmetric_matrix,
    weights_of,
)
from littoral.planning.topology import RoundSeconds, Topology, gap

USELESS = 1e-5  # a link whose best weight is below this is left out
KNEE = 0.17  # the gap at which a round is worth half; a tree of 0.13 proved worth less, a ring of 0.33 nine tenths
EVALUATIONS = 1500  # graphs that a search may look at on its way from one start
STARTS = 4  # graphs that it improves: the best it begins with
HUBS = 3  # stars that it begins with
FINELY, ROUGHLY = 1e-6, 1e-4  # how far from the least contraction weights may be: in the end, and in a search


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A graph that was considered: its gap by the fastest weights, seconds of a round, and the score of the two."""

    name: str
    gap: float
    seconds: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The topology found, and what it was compared with, best first; ``fast-links`` is the topology itself."""

    topology: Topology
    rows: tuple[Row, ...]


def fast_links(
    nodes: Sequence[str],
    round_seconds: RoundSeconds,
    *,
    sites: Mapping[str, str] | None = None,
    candidates: Mapping[str, Graph] | None = None,
) -> Choice:
    """The links and weights that shrink disagreement most per second, of two nodes or more.

    ``round_seconds`` is given links that each carry a whole model both ways, and says how long a round with them
    takes, compute included. Known graphs and ``candidates`` are scored, the best of them is improved link by link until
    nothing helps or enough was tried, and the winner gets the fastest weights. It is the best found, not the best there
    is; no worse than any row. Same arguments, same choice.
    """
    search = _Search(tuple(nodes), round_seconds)
    starts = _different({**(candidates or {}), **search.starts(sites)})
    found = sorted((search.finished(name, graph, ROUGHLY) for name, graph in starts.items()), key=_worth)
    better = [search.finished("", search.improved(starts[row.name]), ROUGHLY) for _, row in found[:STARTS]]
    weights, best = min([*better, *found], key=_worth)
    weights, best = min([(weights, best), search.finished("", _graph(weights), FINELY)], key=_worth)
    topology = Topology(name="fast-links", rounds=(weights,))
    return Choice(topology=topology, rows=(replace(best, name="fast-links"), *(row for _, row in found)))


def _graph(weights: Weights) -> Graph:
    return Graph(tuple(weights), frozenset(pair for pair in combinations(weights, 2) if pair[1] in weights[pair[0]]))


def _different(named: Mapping[str, Graph]) -> dict[str, Graph]:
    """Of graphs that are the same, the first."""
    first = {graph.edges: name for name, graph in reversed([*named.items()])}
    return {name: graph for name, graph in named.items() if first[graph.edges] == name}


def _worth(found: tuple[Weights, Row]) -> tuple[float, float]:
    return -found[1].score, -found[1].gap


def score(rho: float, seconds: float) -> float:
    """What a second is worth: its rounds, each as far as its mixing lets it count.

    >>> round(score(0.5, 2.0), 3)
    0.448
    """
    found = max(0.0, 1.0 - rho)
    return found**2 / (found**2 + KNEE**2) / seconds


@dataclass(slots=True)
class _Search:
    """Graphs over the same nodes, each scored once."""

    nodes: tuple[str, ...]
    round_seconds: RoundSeconds
    scores: dict[frozenset[Edge], float] = field(default_factory=dict)
    pairs: dict[Edge, float] = field(default_factory=dict)  # every possible link, and a round with it alone

    def __post_init__(self) -> None:
        self.pairs = {pair: self.round_seconds(frozenset({pair})) for pair in combinations(self.nodes, 2)}
        if wrong := [pair for pair, seconds in self.pairs.items() if not 0 < seconds < math.inf]:
            found = f"a round between {wrong[0][0]!r} and {wrong[0][1]!r} takes {self.pairs[wrong[0]]} s"
            raise InputError(found, remedy="fast-links needs times above nought, and every pair to have a route")

    def seconds(self, a: str, b: str) -> float:
        return self.pairs[(a, b) if (a, b) in self.pairs else (b, a)]

    def starts(self, sites: Mapping[str, str] | None) -> dict[str, Graph]:
        """The graphs that a search begins with, by name."""
        nodes = self.nodes
        found = {
            "ring": graphs.ring(nodes),
            "nearest-neighbour ring": self._nearest_ring(),
            "complete": graphs.complete(nodes),
            "spanning tree": graphs.spanning_tree(nodes, self.seconds),
            "symmetric exponential": graphs.symmetric_exponential(nodes),
        }
        for hub in sorted(range(len(nodes)), key=self._distance)[:HUBS]:
            found[f"star on {nodes[hub]}"] = graphs.star(nodes, hub)
        sites = sites or self._neighbourhoods()
        found["site-tree"] = graphs.site_tree(nodes, sites, self.seconds)
        most = sorted(Counter(sites.values()).values())[-2:][0]  # beyond the second largest site nobody has a partner
        for count in sorted({*(1 << k for k in range(1, most.bit_length())), most}):
            found[f"{count} rings of sites"] = graphs.site_rings(nodes, sites, count)
        return found

    def _neighbourhoods(self) -> dict[str, str]:
        """Sites as the times tell: links are near below the widest step between times, as a ratio, and far above it."""
        times = sorted(self.pairs.values())
        limit = max(pairwise([*times, times[-1]]), key=lambda step: step[1] / step[0])[0]
        near = [pair for pair, seconds in self.pairs.items() if seconds <= limit]
        return {node: part[0] for part in graphs.components(self.nodes, near) for node in part}

    def _distance(self, hub: int) -> float:
        return sum(self.seconds(self.nodes[hub], node) for node in self.nodes if node != self.nodes[hub])

    def _nearest_ring(self) -> Graph:
        """A ring that goes from each node to the nearest one not in it yet."""
        order, left = [0], list(range(1, len(self.nodes)))
        while left:
            order.append(min(left, key=lambda i: self.seconds(self.nodes[order[-1]], self.nodes[i])))
            left.remove(order[-1])
        return graphs.graph_of(self.nodes, zip(order, [*order[1:], order[0]], strict=True))

    def finished(self, name: str, graph: Graph, precision: float) -> tuple[Weights, Row]:
        """A graph with its fastest weights, less the links that these leave out, and what that is worth."""
        topology = Topology(name=name, rounds=(fastest_mixing(graph, precision),))
        rho, seconds = 1 - gap(topology), self.round_seconds(graph.edges & topology.arcs())
        return topology.rounds[0], Row(name=name, gap=1 - rho, seconds=seconds, score=score(rho, seconds))

    def value(self, edges: frozenset[Edge]) -> float:
        """Score by Metropolis weights, which cost less to find; nought for what does not hang together."""
        if edges not in self.scores:
            ends = ends_of(Graph(self.nodes, edges))
            rho = edge_contraction(len(self.nodes), ends, metropolis_shares(len(self.nodes), ends)) if edges else 1.0
            self.scores[edges] = score(rho, self.round_seconds(edges)) if rho < 1 - 1e-9 else 0.0
        return self.scores[edges]

    def improved(self, graph: Graph) -> Graph:
        """Dear links taken out, one by one, where that does not hurt, and cheap ones put in where it helps."""
        edges, best, left = graph.edges, self.value(graph.edges), EVALUATIONS
        cheap, moved = sorted(self.pairs, key=self.pairs.__getitem__), True
        while moved and left > 0:
            moved = False
            for pair in [*(pair for pair in reversed(cheap) if pair in edges), *cheap][:left]:
                found = self.value(edges ^ {pair})
                if found > best * (1 + 1e-9) or (pair in edges and found >= best):
                    edges, best, moved = edges ^ {pair}, found, True
                left -= 1
        return Graph(self.nodes, edges)


def fastest_mixing(graph: Graph, precision: float = FINELY) -> Weights:
    """The non-negative symmetric weights on a graph's links with the least contraction (Xiao & Boyd 2004).

    Never worse than Metropolis. Links that the best weights do not use are left out. Meant for up to some 64 nodes:
    the time grows with the third power of the number of links (about a second for some hundreds).
    """
    n, ends = len(graph.nodes), ends_of(graph)
    start = metropolis_shares(n, ends)
    found = _interior_point(n, ends, start, precision) if edge_contraction(n, ends, start) else start
    found = np.where(found < USELESS, 0.0, found)
    return weights_of(graph, min(start, found, key=lambda shares: edge_contraction(n, ends, shares)))


def _interior_point(n: int, ends: Array, start: Array, precision: float) -> Array:
    """Least s with -sI <= W - J <= sI and W >= 0, W = I - Σ w_e b_e b_e', by Newton steps along the barrier

    t s - log det(sI - W + J) - log det(sI + W - J) - Σ log w_e - Σ log W_ii. With X the inverse of one of the two
    matrices, the Hessian of its log det is (b_e' X b_f)², so a step costs one eigendecomposition and one solve.
    """
    shares, s = 0.9 * start, edge_contraction(n, ends, 0.9 * start) + 0.1
    sides, t = 3 * n + len(ends), 10.0
    while sides / t > precision:
        t *= 30
        for _ in range(30):
            step, gain = _newton_step(n, ends, shares, s, t)
            length = 1.0
            height = _barrier(n, ends, shares, s, t)
            while not _barrier(n, ends, shares + length * step[:-1], s + length * step[-1], t) <= (
                height - 0.1 * length * gain
            ):
                length /= 2
                if length < 1e-6:
                    return shares  # rounding has the last word: what stands is inside, and at most so far off
            shares, s = shares + length * step[:-1], s + float(length * step[-1])
            if gain < 0.01:
                break
    return shares


def _barrier(n: int, ends: Array, shares: Array, s: float, t: float) -> float:
    mixed = symmetric_matrix(n, ends, shares)
    levels = np.linalg.eigvalsh(mixed - 1 / n)
    inside = np.concatenate([s - levels, s + levels, shares, np.diag(mixed)])
    return float(t * s - np.log(inside).sum()) if inside.min() > 0 else math.inf


def _newton_step(n: int, ends: Array, shares: Array, s: float, t: float) -> tuple[Array, float]:
    """The step in (weights, s), and by how much it would lower the barrier, twice."""
    mixed = symmetric_matrix(n, ends, shares)
    levels, vectors = np.linalg.eigh(mixed - 1 / n)
    i, j = ends[:, 0], ends[:, 1]
    across = vectors[i] - vectors[j]  # b_e in the base of eigenvectors
    above, below, own = 1 / (s - levels), 1 / (s + levels), 1 / np.diag(mixed)
    touch = np.zeros((n, len(ends)))
    touch[i, np.arange(len(ends))] = touch[j, np.arange(len(ends))] = 1.0

    slope = np.append(across**2 @ (below - above) - 1 / shares + own @ touch, t - above.sum() - below.sum())
    bend = np.empty((len(slope), len(slope)))
    bend[:-1, :-1] = ((across * above) @ across.T) ** 2 + ((across * below) @ across.T) ** 2
    bend[:-1, :-1] += np.diag(shares**-2.0) + (touch.T * own**2) @ touch
    bend[:-1, -1] = bend[-1, :-1] = across**2 @ (above**2 - below**2)
    bend[-1, -1] = (above**2 + below**2).sum()
    step = -np.linalg.solve(bend, slope)
    return step, float(-slope @ step)
