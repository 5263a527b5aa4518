"""Who may average with whom: undirected graphs over an ordered list of nodes.

A graph says nothing of weights (those are in ``mixing``) nor of time. Ring-based and double-ring are the graphs of Luo
et al., "Hop: Heterogeneity-aware decentralized training" (ASPLOS 2019). Every builder takes two nodes or more; one that
cannot be built over so many nodes is refused, with the graph to take instead.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from littoral.errors import InputError

Edge = tuple[str, str]
PairSeconds = Callable[[str, str], float]  # how long two nodes, the earlier first, take to swap models


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in order, and links that carry models both ways; a link is written once, its earlier node first."""

    nodes: tuple[str, ...]
    edges: frozenset[Edge]

    def index_pairs(self) -> list[tuple[int, int]]:
        """The links by the places of their ends, in order."""
        place = {node: i for i, node in enumerate(self.nodes)}
        return sorted((place[a], place[b]) for a, b in self.edges)

    def joined(self, other: Graph) -> Graph:
        """The links of both, over the same nodes."""
        return Graph(self.nodes, self.edges | other.edges)


def graph_of(nodes: Sequence[str], pairs: Iterable[tuple[int, int]]) -> Graph:
    """The graph with these links between places; repeats and loops count for nothing.

    >>> sorted(graph_of(["a", "b", "c"], [(1, 0), (0, 1), (2, 2), (1, 2)]).edges)
    [('a', 'b'), ('b', 'c')]
    """
    return Graph(tuple(nodes), frozenset((nodes[min(p)], nodes[max(p)]) for p in pairs if p[0] != p[1]))


def reached(start: str, arcs: Iterable[Edge]) -> set[str]:
    """Every node that what starts at one comes to, along the direction of the arcs."""
    onward: dict[str, list[str]] = {}
    for source, target in arcs:
        onward.setdefault(source, []).append(target)
    seen, todo = {start}, [start]
    while todo:
        fresh = [node for node in onward.get(todo.pop(), ()) if node not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return seen


def components(nodes: Sequence[str], links: Iterable[Edge]) -> list[tuple[str, ...]]:
    """The parts between which there is no link in either direction; one where everything hangs together.

    >>> components(["a", "b", "c"], [("c", "a")])
    [('a', 'c'), ('b',)]
    """
    arcs = [arc for a, b in links for arc in ((a, b), (b, a))]
    parts: list[tuple[str, ...]] = []
    left = list(nodes)
    while left:
        mine = reached(left[0], arcs)
        parts.append(tuple(node for node in left if node in mine))
        left = [node for node in left if node not in mine]
    return parts


def ring(nodes: Sequence[str]) -> Graph:
    """Everyone with the next, the last with the first."""
    n = len(nodes)
    return graph_of(nodes, ((i, (i + 1) % n) for i in range(n)))


def complete(nodes: Sequence[str]) -> Graph:
    """Everyone with everyone."""
    return graph_of(nodes, combinations(range(len(nodes)), 2))


def star(nodes: Sequence[str], hub: int = 0) -> Graph:
    """Everyone with one of them: the first, unless told."""
    return graph_of(nodes, ((hub, i) for i in range(len(nodes))))


def hypercube(nodes: Sequence[str]) -> Graph:
    """Those whose places differ in one bit; a power of two of them."""
    n = len(nodes)
    if n & (n - 1):
        raise InputError(
            f"a hypercube needs a power of two of nodes, not {n}",
            remedy=f"take base-k, which is exact for any number, or {1 << (n.bit_length() - 1)} nodes",
            key="strategy",
        )
    return graph_of(nodes, ((i, i ^ (1 << bit)) for i in range(n) for bit in range(n.bit_length() - 1)))


def ring_based(nodes: Sequence[str]) -> Graph:
    """A ring in which everyone is also linked to the one opposite (of an odd number the last has none)."""
    half = len(nodes) // 2
    return ring(nodes).joined(graph_of(nodes, ((i, i + half) for i in range(half))))


def double_ring(nodes: Sequence[str]) -> Graph:
    """Two ring-based graphs, the first half and the second, joined node to node."""
    half, odd = divmod(len(nodes), 2)
    if odd:
        raise InputError(
            f"a double-ring needs an even number of nodes, not {len(nodes)}", remedy="take ring-based", key="strategy"
        )
    halves = ring_based(nodes[:half]).edges | ring_based(nodes[half:]).edges
    rungs = graph_of(nodes, ((i, i + half) for i in range(half)))
    return Graph(tuple(nodes), rungs.edges | halves)


def torus(nodes: Sequence[str]) -> Graph:
    """A grid as square as the number allows, whose rows and columns are rings; a prime number of nodes is one ring."""
    n = len(nodes)
    rows = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    wide = n // rows
    across = ((r * wide + c, r * wide + (c + 1) % wide) for r in range(rows) for c in range(wide))
    down = ((r * wide + c, (r + 1) % rows * wide + c) for r in range(rows) for c in range(wide))
    return graph_of(nodes, [*across, *down])


def symmetric_exponential(nodes: Sequence[str]) -> Graph:
    """Those whose places differ by a power of two, whatever the direction."""
    n = len(nodes)
    return graph_of(nodes, ((i, (i + (1 << t)) % n) for i in range(n) for t in range((n - 1).bit_length())))


def random_regular(nodes: Sequence[str], degree: int | None = None, seed: int = 0) -> Graph:
    """Everyone with ``degree`` others drawn by seed (4, or everyone if fewer), always connected.

    A circulant graph whose links swap ends at random, until it is mixed and hangs together.
    """
    n = len(nodes)
    degree = min(4, n - 1) if degree is None else degree
    if not 1 <= degree < n or n * degree % 2 or (degree == 1 and n > 2):
        even = " and one of the two even" if n * degree % 2 else ""
        raise InputError(
            f"{n} nodes cannot have {degree} neighbours each and be connected",
            remedy=f"give a degree between {min(2, n - 1)} and {n - 1}{even}",
            key="strategy",
        )
    rng = random.Random(seed)
    offsets = [*range(1, degree // 2 + 1), *([n // 2] if degree % 2 else [])]
    pairs = list({tuple(sorted((i, (i + a) % n))): None for i in range(n) for a in offsets})
    while True:
        for _ in range(10 * len(pairs)):
            _swap(pairs, rng)
        found = graph_of(nodes, ((i, j) for i, j in pairs))
        if len(components(nodes, found.edges)) == 1:
            return found


def _swap(pairs: list[tuple[int, ...]], rng: random.Random) -> None:
    """Two links exchange an end, if that makes neither a loop nor a repeat: degrees stay."""
    x, y = rng.randrange(len(pairs)), rng.randrange(len(pairs))
    (a, b), (c, d) = pairs[x], rng.sample(pairs[y], 2)
    fresh = [tuple(sorted((a, c))), tuple(sorted((b, d)))]
    if x != y and a != c and b != d and not any(pair in pairs for pair in fresh):
        pairs[x], pairs[y] = fresh


def spanning_tree(nodes: Sequence[str], seconds: PairSeconds) -> Graph:
    """The tree over all nodes whose links take least time in sum (Prim 1957); of equals, the first."""
    place = {node: i for i, node in enumerate(nodes)}
    near = {node: (seconds(nodes[0], node), 0) for node in nodes[1:]}  # how far from the tree, and to which of it
    pairs = []
    while near:
        node = min(near, key=lambda name: (near[name][0], place[name]))
        pairs.append((near.pop(node)[1], place[node]))
        for other, (best, _) in near.items():
            a, b = sorted((node, other), key=place.__getitem__)
            if (found := seconds(a, b)) < best:
                near[other] = (found, place[node])
    return graph_of(nodes, pairs)


def site_tree(nodes: Sequence[str], sites: Mapping[str, str], seconds: PairSeconds | None = None) -> Graph:
    """Everyone with everyone inside a site; each site's first node, its head, is linked to other heads as a tree.

    The tree is the one of least time where ``seconds`` are known, else a star around the first head.
    """
    members = _by_site(nodes, sites)
    heads = [inside[0] for inside in members]
    tree = spanning_tree(heads, seconds) if seconds else star(heads)
    return Graph(tuple(nodes), tree.edges.union(*(complete(inside).edges for inside in members)))


def site_rings(nodes: Sequence[str], sites: Mapping[str, str], count: int) -> Graph:
    """Everyone with everyone inside a site; the first nodes of all sites are a ring, the second ones, ... ``count``."""
    members = _by_site(nodes, sites)
    place = {node: i for i, node in enumerate(nodes)}
    across = [[inside[k] for inside in members if k < len(inside)] for k in range(count)]
    rings = graph_of(nodes, ((place[a], place[b]) for around in across for a, b in ring(around).edges))
    return Graph(tuple(nodes), rings.edges.union(*(complete(inside).edges for inside in members)))


def _by_site(nodes: Sequence[str], sites: Mapping[str, str]) -> list[list[str]]:
    if missing := [node for node in nodes if node not in sites]:
        raise InputError(f"{missing[0]!r} has no site", remedy="say of every node where it stands", key="strategy")
    members: dict[str, list[str]] = {}
    for node in nodes:
        members.setdefault(sites[node], []).append(node)
    return list(members.values())
