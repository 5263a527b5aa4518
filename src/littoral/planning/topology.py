"""Who averages with whom in which round, by which weights: the record, its spectral gap, its checks, and its repair.

A topology is plain data, made once and saved with a run. Strategies that average read one row of one round at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import numpy as np

from littoral.document import suggest
from littoral.errors import InputError
from littoral.planning import graphs
from littoral.planning.graphs import Edge, Graph, graph_of, reached
from littoral.planning.mixing import (
    Array,
    Weights,
    base,
    best_constant,
    contraction,
    equistatic,
    exponential,
    matrix,
    metropolis,
    one_peer_exponential,
)

Mixing = Literal["doubly", "column"]  # what sums to one: rows and columns, or (for push-sum) columns alone
RoundSeconds = Callable[[frozenset[Edge]], float]  # of a round in which models cross these links, both ways

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Round k mixes by ``rounds[k % period]``; ``rounds[r][i][j]`` is the weight that i gives to j's model.

    For push-sum (SGP, Assran et al. 2019) it is the share of j's mass that goes to i, and only columns sum to one.
    """

    name: str
    rounds: tuple[Weights, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.rounds[0])

    @property
    def period(self) -> int:
        return len(self.rounds)

    @property
    def is_symmetric(self) -> bool:
        return all(map(symmetric, self.rounds))

    def weights(self, node: str, round: int) -> dict[str, float]:
        """What a node gives to each model it averages in a round, its own included."""
        return dict(self.rounds[round % self.period][node])

    def senders(self, node: str, round: int) -> tuple[str, ...]:
        """Whose models a node needs in a round."""
        return tuple(other for other, weight in self.weights(node, round).items() if weight and other != node)

    def receivers(self, node: str, round: int) -> tuple[str, ...]:
        """Who needs a node's model in a round."""
        rows = self.rounds[round % self.period].items()
        return tuple(other for other, row in rows if row.get(node) and other != node)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Everyone that a node ever sends to or hears from."""
        near = {end for arc in self.arcs() if node in arc for end in arc}
        return tuple(other for other in self.nodes if other in near and other != node)

    def arcs(self) -> frozenset[Edge]:
        """Every (sender, receiver) over the period."""
        found = (
            (other, node) for rows in self.rounds for node in rows for other, weight in rows[node].items() if weight
        )
        return frozenset(arc for arc in found if arc[0] != arc[1])


def symmetric(weights: Weights) -> bool:
    """Whether any two nodes give each other the same weight."""
    return all(
        math.isclose(weight, weights.get(other, {}).get(node, 0.0), abs_tol=TOLERANCE)
        for node, row in weights.items()
        for other, weight in row.items()
    )


def gap(topology: Topology) -> float:
    """1 - rho per round: 1 where one period gives the exact mean, 0 where disagreement never shrinks.

    rho is ||W - J||, of a time-varying topology the period's root of that of all its rounds together; where only
    columns sum to one, it is the second largest eigenvalue instead, for push-sum corrects what the norm would count.
    """
    mixed = _period_matrix(topology)
    rho = contraction(mixed) if _rows_sum(mixed) else _second_eigenvalue(mixed)
    return float(1.0 - rho ** (1 / topology.period))


def _period_matrix(topology: Topology) -> Array:
    return reduce(lambda done, weights: matrix(weights) @ done, topology.rounds, np.eye(len(topology.nodes)))


def _rows_sum(mixed: Array) -> bool:
    return bool(np.allclose(mixed.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE))


def _second_eigenvalue(mixed: Array) -> float:
    return float(np.sort(np.abs(np.linalg.eigvals(mixed)))[-2]) if len(mixed) > 1 else 0.0


def check(topology: Topology, mixing: Mixing = "doubly") -> None:
    """Refuse a topology by which nodes would not come to agree on their mean, with the reason.

    ``doubly``: rows and columns of every round sum to one. ``column``: columns do, the rest is push-sum's.
    """
    if reason := _flaw(topology, mixing):
        raise InputError(f"topology {topology.name!r}: {reason[0]}", remedy=reason[1], key="strategy")


def _flaw(topology: Topology, mixing: Mixing) -> tuple[str, str] | None:
    """What is wrong first, and the remedy."""
    if not topology.rounds or not topology.nodes:
        return "no rounds, or nobody in them", "give one round over one node at least"
    nodes = topology.nodes
    for number, weights in enumerate(topology.rounds):
        if set(weights) != set(nodes) or any(other not in weights for row in weights.values() for other in row):
            return f"round {number} is not over the same nodes as round 0", "give every round a row for every node"
        for node, row in weights.items():
            for other, weight in row.items():
                if not weight >= 0 or math.isinf(weight):
                    return f"{node!r} gives {other!r} a weight of {weight:g} in round {number}", "weights are shares"
        if found := _wrong_sum(weights, number, mixing):
            return found, "give what is missing to the node itself"
    arcs = topology.arcs()
    onward, back = reached(nodes[0], arcs), reached(nodes[0], ((b, a) for a, b in arcs))
    for node in nodes:
        if node not in onward or node not in back:
            source, target = (nodes[0], node) if node not in onward else (node, nodes[0])
            return f"not connected: {source!r} never reaches {target!r}", "add links between them"
    if _second_eigenvalue(_period_matrix(topology)) > 1 - TOLERANCE / 10:
        remedy = "let nodes keep a share of their own model"
        return "no spectral gap: nodes swap models for ever and never agree (eigenvalue -1)", remedy
    return None


def _wrong_sum(weights: Weights, number: int, mixing: Mixing) -> str:
    dense = matrix(weights)
    for axis, kind in ((1, "row"), (0, "column")) if mixing == "doubly" else ((0, "column"),):
        for node, total in zip(weights, dense.sum(axis=axis), strict=True):
            if abs(total - 1) > TOLERANCE:
                return f"the {kind} of {node!r} sums to {total:.6g}, not to 1, in round {number}"
    return ""


def without_links(weights: Weights, dropped: Collection[Edge]) -> Weights:
    """A round in which these (sender, receiver) links were down; what they would have carried stays where it was.

    Symmetric weights: a link falls both ways, and both ends keep its weight, so that rows and columns still sum to one.
    Directed ones: the sender keeps its mass; columns still sum to one, rows do not, which only push-sum can bear.
    """
    both_ways = symmetric(weights)
    fallen = sorted({*dropped, *((b, a) for a, b in dropped if both_ways)})  # in order: sums round the same way
    found = {node: dict(row) for node, row in weights.items()}
    for sender, receiver in fallen:
        if sender != receiver and sender in found:
            kept = found.get(receiver, {}).pop(sender, 0.0)
            found[sender][sender] = found[sender].get(sender, 0.0) + kept
    return found


def without_nodes(topology: Topology, gone: Collection[str]) -> Topology:
    """The topology of those who stay; it may have fallen apart (see ``repaired``).

    Neighbours keep for themselves what they exchanged with a node that left. In a directed round whose rows and columns
    sum to one, whoever sent to that node sends to those it sent to instead, so that they still do.
    """
    leaving = [node for node in topology.nodes if node in gone]
    return replace(topology, rounds=tuple(reduce(_without_node, leaving, weights) for weights in topology.rounds))


def _without_node(weights: Weights, gone: str) -> Weights:
    found = {node: {k: w for k, w in row.items() if k != gone} for node, row in weights.items() if node != gone}
    sent = {node: weights[gone].get(node, 0.0) for node in found}  # by whom, to the one that left
    got = {node: weights[node].get(gone, 0.0) for node in found}
    if not _rows_sum(matrix(weights)):
        got = dict(sent)  # only what is sent has to be kept
    for node in found:
        _give(found, node, node, min(sent[node], got[node]), sent, got)
    for receiver in found:
        for sender in found:
            _give(found, receiver, sender, min(sent[sender], got[receiver]), sent, got)
    return found


def _give(weights: Weights, to: str, of: str, share: float, sent: dict[str, float], got: dict[str, float]) -> None:
    """A share of one's model that went to the node that left goes to another, or stays with its owner."""
    if share > 0:
        weights[to][of] = weights[to].get(of, 0.0) + share
        sent[of], got[to] = sent[of] - share, got[to] - share


def repaired(topology: Topology, members: Collection[str]) -> Topology:
    """A valid topology over a group that has changed: who left is taken out, who is new or cut off joins by a ring.

    Parts that no longer hang together are joined by a ring over all members, whose links mix with those that are left
    by Metropolis weights; a time-varying topology gets the ring as one more round.
    """
    if not members:
        raise InputError("nobody is left to average with", remedy="keep one member at least")
    rest = without_nodes(topology, [node for node in topology.nodes if node not in members])
    alone = {node: {node: 1.0} for node in sorted(set(members) - set(topology.nodes))}
    rest = replace(rest, rounds=tuple(weights | alone for weights in rest.rounds))
    if not _flaw(rest, "column"):
        return rest
    around = graphs.ring(rest.nodes)
    if topology.period > 1:
        return replace(rest, rounds=(*rest.rounds, metropolis(around)))
    place = {node: i for i, node in enumerate(rest.nodes)}
    left = graph_of(rest.nodes, ((place[a], place[b]) for a, b in rest.arcs()))
    return replace(rest, rounds=(metropolis(around.joined(left)),))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What was asked for, beside the name."""

    nodes: Sequence[str]
    degree: int | None
    seed: int
    sites: Mapping[str, str] | None
    round_seconds: RoundSeconds | None


def _plain(build: Callable[[Sequence[str]], Graph]) -> Callable[[_Wish], Graph]:
    return lambda wish: build(wish.nodes)


def _site_tree(wish: _Wish) -> Graph:
    if wish.sites is None:
        raise InputError("site-tree needs the site of every node", remedy="give sites, or take ring", key="strategy")
    timed = wish.round_seconds
    return graphs.site_tree(wish.nodes, wish.sites, timed and (lambda a, b: timed(frozenset({(a, b)}))))


GRAPHS: dict[str, Callable[[_Wish], Graph]] = {
    "ring": _plain(graphs.ring),
    "complete": _plain(graphs.complete),
    "hypercube": _plain(graphs.hypercube),
    "ring-based": _plain(graphs.ring_based),
    "double-ring": _plain(graphs.double_ring),
    "torus": _plain(graphs.torus),
    "star": _plain(graphs.star),
    "random-regular": lambda wish: graphs.random_regular(wish.nodes, wish.degree, wish.seed),
    "site-tree": _site_tree,
}
SCHEMES: dict[str, Callable[[_Wish], tuple[Weights, ...]]] = {  # these bring their weights
    "exponential": lambda wish: (exponential(wish.nodes),),
    "one-peer-exponential": lambda wish: one_peer_exponential(wish.nodes),
    "base-k": lambda wish: base(wish.nodes, 1 if wish.degree is None else wish.degree),
    "equistatic": lambda wish: (equistatic(wish.nodes, wish.degree, wish.seed),),
}
WEIGHTS = ("metropolis", "best-constant", "fastest")
DEGREED = ("random-regular", "base-k", "equistatic")  # those that take a degree


def make_topology(
    name: str,
    nodes: Sequence[str],
    *,
    degree: int | None = None,
    seed: int = 0,
    sites: Mapping[str, str] | None = None,
    round_seconds: RoundSeconds | None = None,
    weights: Literal["metropolis", "best-constant", "fastest"] = "metropolis",
    mixing: Mixing = "doubly",
) -> Topology:
    """A topology by name over nodes in order; what comes back always passes ``check``.

    All of them are doubly stochastic, which push-sum (``mixing="column"``) may use as it is. ``seed`` is for
    random-regular and equistatic, ``degree`` for these and base-k, ``sites`` for site-tree and fast-links;
    ``round_seconds`` is what fast-links makes best use of, and finds the tree of a site-tree.
    """
    _check_wish(name, nodes, degree, weights)
    wish = _Wish(nodes, degree, seed, sites, round_seconds)
    found = Topology(name=name, rounds=_rounds(name, wish, weights))
    check(found, mixing)
    return found


def _check_wish(name: str, nodes: Sequence[str], degree: int | None, weights: str) -> None:
    known = [*GRAPHS, *SCHEMES, "fast-links"]
    if name not in known:
        raise InputError(f"unknown topology {name!r}", remedy=suggest(name, known), key="strategy")
    if weights not in WEIGHTS:
        raise InputError(f"unknown weights {weights!r}", remedy=suggest(weights, [*WEIGHTS]), key="strategy")
    if weights != "metropolis" and name not in (*GRAPHS, "fast-links"):
        raise InputError(f"{name} brings its own weights", remedy="leave weights out", key="strategy")
    if degree is not None and name not in DEGREED:
        remedy = f"leave it out, or take {', '.join(DEGREED)}"
        raise InputError(f"{name} takes no degree", remedy=remedy, key="strategy")
    if not nodes or len(set(nodes)) < len(nodes):
        found = "no nodes" if not nodes else "a node twice"
        raise InputError(f"a topology over {found}", remedy="name every node once", key="strategy")


def _rounds(name: str, wish: _Wish, weights: str) -> tuple[Weights, ...]:
    from littoral.planning.fast_links import fast_links, fastest_mixing  # which are made of topologies themselves

    if len(wish.nodes) == 1:
        return ({wish.nodes[0]: {wish.nodes[0]: 1.0}},)
    if name in SCHEMES:
        return SCHEMES[name](wish)
    if name == "fast-links":
        if wish.round_seconds is None:
            remedy = "give round_seconds, or take a graph that needs none"
            raise InputError("fast-links needs the seconds of a round", remedy=remedy, key="strategy")
        return fast_links(wish.nodes, wish.round_seconds, sites=wish.sites).topology.rounds
    weigh = {"metropolis": metropolis, "best-constant": best_constant, "fastest": fastest_mixing}
    return (weigh[weights](GRAPHS[name](wish)),)
