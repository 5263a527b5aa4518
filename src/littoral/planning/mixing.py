"""By which weights nodes average: on undirected graphs, and in directed or time-varying schemes that bring their own.

``weights[i][j]`` is what node i gives to node j's model, its own included. Where rows and columns both sum to one
(doubly stochastic) the mean over all nodes stays, and disagreement shrinks per round by at least the contraction
rho = ||W - J||, J being the exact average (Xiao & Boyd, "Fast linear iterations for distributed averaging", 2004).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from littoral.errors import InputError
from littoral.planning.graphs import Graph

Weights = dict[str, dict[str, float]]
Array = np.ndarray[Any, np.dtype[np.float64]]

EXACT = 1e-12  # a contraction below this is one to nothing, up to rounding


def matrix(weights: Weights) -> Array:
    """Weights as a matrix, nodes in the order of the rows."""
    place = {node: i for i, node in enumerate(weights)}
    found = np.zeros((len(place), len(place)))
    for node, row in weights.items():
        for other, weight in row.items():
            found[place[node], place[other]] = weight
    return found


def contraction(mixed: Array) -> float:
    """||W - J||: by how much at most one application leaves the disagreement that there was; 0 for the exact mean."""
    return _nought(float(np.linalg.norm(mixed - 1 / len(mixed), 2)))


def _nought(rho: float) -> float:
    return 0.0 if rho < EXACT else rho


def metropolis(graph: Graph) -> Weights:
    """W_ij = 1 / (1 + the larger degree): doubly stochastic on any graph, known from neighbours' degrees alone.

    >>> metropolis(Graph(("a", "b"), frozenset({("a", "b")})))
    {'a': {'a': 0.5, 'b': 0.5}, 'b': {'b': 0.5, 'a': 0.5}}
    """
    return weights_of(graph, metropolis_shares(len(graph.nodes), ends_of(graph)))


def best_constant(graph: Graph) -> Weights:
    """One weight for every link: 2 / (λ_max + λ_2) of the Laplacian, or the most that leaves no node a negative one."""
    ends = ends_of(graph)
    ones = np.ones(len(ends))
    levels = np.linalg.eigvalsh(np.eye(len(graph.nodes)) - symmetric_matrix(len(graph.nodes), ends, ones))
    return weights_of(graph, ones * min(2 / (levels[-1] + levels[1]), 1 / np.bincount(ends.ravel()).max()))


def metropolis_shares(n: int, ends: Array) -> Array:
    """Metropolis weights of links given by the places of their ends, one row each."""
    degrees = np.bincount(ends.ravel(), minlength=n)
    return np.asarray(1.0 / (1.0 + degrees[ends].max(axis=1)))


def edge_contraction(n: int, ends: Array, shares: Array) -> float:
    """The contraction of symmetric weights given by link: quicker than by matrix, for searches."""
    levels = np.linalg.eigvalsh(symmetric_matrix(n, ends, shares) - 1 / n)
    return _nought(float(max(-levels[0], levels[-1])))


def ends_of(graph: Graph) -> Array:
    return np.array(graph.index_pairs(), dtype=np.intp)


def symmetric_matrix(n: int, ends: Array, shares: Array) -> Array:
    found = np.zeros((n, n))
    found[ends[:, 0], ends[:, 1]] = found[ends[:, 1], ends[:, 0]] = shares
    np.fill_diagonal(found, 1.0 - found.sum(axis=1))
    return found


def weights_of(graph: Graph, shares: Array) -> Weights:
    found: Weights = {node: {node: 1.0} for node in graph.nodes}
    for (i, j), share in zip(graph.index_pairs(), shares, strict=True):
        a, b = graph.nodes[i], graph.nodes[j]
        if share > 0:
            found[a][b] = found[b][a] = float(share)
    for node, row in found.items():
        row[node] = max(0.0, 1.0 - math.fsum(weight for other, weight in row.items() if other != node))
    return found


def circulant(nodes: Sequence[str], shares: dict[int, float]) -> Weights:
    """Everyone gives the node so many places before it such a weight."""
    n = len(nodes)
    return {node: {nodes[(i - offset) % n]: share for offset, share in shares.items()} for i, node in enumerate(nodes)}


def exponential(nodes: Sequence[str]) -> Weights:
    """Everyone sends to those 1, 2, 4, ... places on, all weights equal (Assran et al. 2019; Ying et al. 2021)."""
    offsets = [0, *(1 << t for t in range((len(nodes) - 1).bit_length()))]
    return circulant(nodes, {offset: 1 / len(offsets) for offset in offsets})


def one_peer_exponential(nodes: Sequence[str]) -> tuple[Weights, ...]:
    """The same, one distance per round: the exact mean after log2 n rounds if n is a power of two, else near it."""
    return tuple(circulant(nodes, {0: 0.5, 1 << t: 0.5}) for t in range((len(nodes) - 1).bit_length()))


def equistatic(nodes: Sequence[str], degree: int | None = None, seed: int = 0) -> Weights:
    """D-EquiStatic: ``degree`` random distances (log2 n of them), whose contraction hardly depends on n.

    Song et al., "Communication-efficient topologies for decentralized learning with O(1) consensus rate" (2022). The
    distances differ, and have no common divisor with n: else there would be parts that never meet.
    """
    n = len(nodes)
    degree = (n - 1).bit_length() if degree is None else degree
    if not 1 <= degree < n:
        raise InputError(
            f"equistatic over {n} nodes cannot have {degree} distances",
            remedy=f"give a degree between 1 and {n - 1}",
            key="strategy",
        )
    rng = random.Random(seed)
    offsets = [0]
    while math.gcd(n, *offsets) > 1:
        offsets = rng.sample(range(1, n), degree)
    return circulant(nodes, {0: 1 / n} | {offset: (n - 1) / n / degree for offset in offsets})


def base(nodes: Sequence[str], degree: int = 1) -> tuple[Weights, ...]:
    """The Base-(k+1) graph: the exact mean of any number of nodes, after few rounds with at most k = degree neighbours.

    Takezawa et al., "Beyond exponential graph: communication-efficient topologies for decentralized learning via
    finite-time convergence" (2023). The part of n without factors up to k+1 is averaged inside groups, the rest
    across them; or all at once where that takes fewer rounds.
    """
    if degree < 1:
        raise InputError(f"a degree of {degree}", remedy="give base-k a degree of 1 or more", key="strategy")
    factors, rest = _factors(len(nodes), degree + 1)
    groups = [nodes[at : at + rest] for at in range(0, len(nodes), rest)]
    inside = [_simple_base(group, degree) for group in groups]
    across = [_digit_groups(nodes, rest, factors, digit) for digit in range(len(factors))]
    split = [*([pair for part in level for pair in part] for level in zip(*inside, strict=True)), *across]
    whole = _simple_base(nodes, degree)
    return tuple(_swaps(nodes, level) for level in min(split, whole, key=len))


Swap = tuple[str, str, float]  # two nodes and the weight they give each other


def _factors(n: int, most: int) -> tuple[list[int], int]:
    """n as a product of factors up to ``most``, largest first, and of a rest that has none.

    >>> _factors(60, 3)
    ([3, 2, 2], 5)
    """
    found = []
    while factor := max((d for d in range(2, most + 1) if n % d == 0), default=0):
        found.append(factor)
        n //= factor
    return found, n


def _digit_groups(nodes: Sequence[str], stride: int, factors: Sequence[int], digit: int) -> list[Swap]:
    """One round of a hyper-hypercube: those whose places, divided by stride, differ in one digit average evenly."""
    size, step = factors[digit], stride * math.prod(factors[:digit])
    groups: dict[int, list[str]] = {}
    for i, node in enumerate(nodes):
        groups.setdefault(i - i // step % size * step, []).append(node)
    return [(a, b, 1 / size) for group in groups.values() for k, a in enumerate(group) for b in group[k + 1 :]]


def _simple_base(nodes: Sequence[str], degree: int) -> list[list[Swap]]:
    """Parts by the digits of n average, spread part by part to all later ones, and average what they got in return."""
    parts = _digit_parts(nodes, degree + 1)
    before = [_hypercube(list(sum(blocks, ())), degree) for blocks in parts]
    if len(parts) == 1:
        return before[0]
    first = len(before[0])
    rounds: list[list[Swap]] = [[] for _ in range(2 * first + 2)]
    for number, blocks in enumerate(parts):
        later = [node for following in parts[number + 1 :] for block in following for node in block]
        own = sum(map(len, blocks))
        for level, swaps in enumerate(before[number]):
            rounds[level] += swaps
        if not later:
            break
        share = own / (own + len(later)) / len(blocks)
        rounds[first + number] += [(u, v, share) for block in blocks for u, v in zip(block, later, strict=False)]
        for block in blocks:
            for level, swaps in enumerate(_hypercube(block, degree)):
                rounds[first + number + 1 + level] += swaps
    while not rounds[-1]:
        rounds.pop()
    return rounds


def _digit_parts(nodes: Sequence[str], radix: int) -> list[list[tuple[str, ...]]]:
    """Per digit of n that is not nought, the most significant first: as many blocks of radix^p nodes as it says."""
    power = 1
    while power * radix <= len(nodes):
        power *= radix
    parts, at = [], 0
    while power:
        count = (len(nodes) - at) // power
        if count:
            parts.append([tuple(nodes[at + k * power : at + (k + 1) * power]) for k in range(count)])
        at, power = at + count * power, power // radix
    return parts


def _hypercube(nodes: Sequence[str], degree: int) -> list[list[Swap]]:
    factors, _ = _factors(len(nodes), degree + 1)
    return [_digit_groups(nodes, 1, factors, digit) for digit in range(len(factors))]


def _swaps(nodes: Sequence[str], swaps: Iterable[Swap]) -> Weights:
    found: Weights = {node: {node: 1.0} for node in nodes}
    for a, b, weight in swaps:
        found[a][b] = found[b][a] = weight
    for node, row in found.items():
        row[node] = 1.0 - math.fsum(weight for other, weight in row.items() if other != node)
    return found
