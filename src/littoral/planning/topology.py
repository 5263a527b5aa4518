from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    rounds: tuple[dict[str, dict[str, float]], ...]

    def weights(self, node, number):
        return self.rounds[number % len(self.rounds)][node]

    def senders(self, node, number):
        return tuple(j for j in self.weights(node, number) if j != node)

    receivers = senders


def make_topology(name, nodes, **_):
    n = len(nodes)
    rows = {}
    for i, a in enumerate(nodes):
        near = {nodes[(i + 1) % n], nodes[(i - 1) % n]} - {a}
        rows[a] = {b: 1 / 3 for b in near} | {a: 1 - len(near) / 3}
    return Topology(name=name, rounds=(rows,))


def repaired(t, members):
    return t if set(t.rounds[0]) == set(members) else make_topology("ring", list(members))
