"""One job, three wishes: soon, cheap, fair; and what is between them.

Cost is every worker's price while it is busy, the servers' until the end, and the samples moved. A burden is the time
a node is busy; fairness is Jain's index of the burdens of all nodes that have room, 1 when all carry the same and 1/n
when one carries all, and the smallest share is what max-min fairness raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from littoral.errors import Infeasible
from littoral.planning.instance import Floats, Instance, Ints, Scheme, evaluate
from littoral.planning.room import Room, room
from littoral.planning.shards import Draft, draft, whole
from littoral.units import show_duration

PLACES = 24  # times between the quickest and the cheapest that are tried
COUNTS = 24  # numbers of cheap nodes that are tried
SLACK = 1 + 1e-9


def burdens(instance: Instance, scheme: Scheme) -> Floats:
    """Busy seconds of all nodes that have room."""
    return np.array(scheme.busy_s)[room(instance).nodes]


def jain(instance: Instance, scheme: Scheme) -> float:
    """(sum x)^2 / (n sum x^2) over the burdens."""
    carried = burdens(instance, scheme)
    return float(carried.sum() ** 2 / (len(carried) * (carried**2).sum()))


def smallest_share(instance: Instance, scheme: Scheme) -> float:
    """The part of all burden that the least burdened node carries; 1/n at best."""
    carried = burdens(instance, scheme)
    return float(carried.min() / carried.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a scheme must keep; None: anything goes."""

    time_s: float | None = None
    cost_usd: float | None = None
    fairness: float | None = None  # Jain's index at least

    def kept(self, instance: Instance, scheme: Scheme) -> bool:
        return (
            (self.time_s is None or scheme.total_s <= self.time_s * SLACK)
            and (self.cost_usd is None or scheme.cost_usd <= self.cost_usd * SLACK)
            and (self.fairness is None or jain(instance, scheme) * SLACK >= self.fairness)
        )

    def refusal(self, instance: Instance, pool: Sequence[Scheme]) -> Infeasible:
        """Names the limits that nothing found keeps, with the best there is."""
        soon, cheap = min(s.total_s for s in pool), min(s.cost_usd for s in pool)
        fair = max(jain(instance, s) for s in pool)
        found = []
        if self.time_s is not None and soon > self.time_s * SLACK:
            found.append(f"time binds: {show_duration(soon)} at best, the limit is {show_duration(self.time_s)}")
        if self.cost_usd is not None and cheap > self.cost_usd * SLACK:
            found.append(f"cost binds: {cheap:.4g} USD at best, the limit is {self.cost_usd:.4g} USD")
        if self.fairness is not None and fair * SLACK < self.fairness:
            found.append(f"fairness binds: {fair:.3f} at best, the floor is {self.fairness:.3f}")
        return Infeasible("; ".join(found) or "time, cost and fairness bind together: each limit can be kept alone")


def merit(instance: Instance, scheme: Scheme, objective: str) -> tuple[float, ...]:
    """Smaller is better."""
    if objective == "cost":
        return scheme.cost_usd, scheme.total_s
    if objective == "fairness":
        return -round(smallest_share(instance, scheme), 6), -jain(instance, scheme), scheme.total_s
    return scheme.total_s, scheme.cost_usd


def candidates(instance: Instance, quickest: Scheme, limit_s: float | None) -> list[Scheme]:
    """Schemes worth comparing: the quickest, fair ones, and cheap ones for a range of times."""
    space = room(instance)
    pool = [quickest]
    for placement in range(len(instance.server_choices)):
        pool += _fair(instance, space, placement)
        pool += _cheap(instance, space, placement, quickest.total_s, limit_s)
    return pool


def _fair(instance: Instance, space: Room, placement: int) -> Iterator[Scheme]:
    """Everybody with room busy for the same time, for every cap on the batches: small ones end closer together."""
    for cap in space.rungs:
        batches = np.maximum(space.largest(space.nodes, cap), space.smallest(space.nodes))
        every = np.zeros(len(instance.names), dtype=np.int64)
        every[space.nodes] = batches
        times, shards = whole(draft(instance, every, placement))
        if np.isfinite(times[0]):
            yield evaluate(instance, shards[0], every, placement, reasons=("everybody carries the same burden",))


def _cheap(
    instance: Instance, space: Room, placement: int, soonest_s: float, limit_s: float | None
) -> Iterator[Scheme]:
    """For each time and each number of nodes: the cheapest nodes filled up to that time, one after the other."""
    batches = space.largest(instance.nodes, instance.batch_most)
    for stores in _sources(instance):
        order = np.argsort(_unit_usd(draft(instance, batches, placement, stores), stores), kind="stable")
        order = order[batches[order] > 0]
        for count in _numbers(len(order)):
            some = np.where(np.isin(instance.nodes, order[:count]), batches, 0)
            one = draft(instance, some, placement, stores)
            for time in _times(one, soonest_s, limit_s):
                shards = _filled(one, order[:count], time)
                if shards is not None:
                    kept = np.where(shards > 0, some, 0)
                    yield evaluate(instance, shards, kept, placement, stores, (f"the cheapest by {time:.4g} s",))


def _sources(instance: Instance) -> list[Ints]:
    """From the store that is nearest, and from the one that is cheapest for the time and the data together."""
    usd = instance.usd_per_sample + instance.usd_per_s * instance.transfer_s_per_sample
    near, cheap = instance.nearest(), np.argmin(usd, axis=0)
    return [near] if np.array_equal(near, cheap) else [near, cheap]


def _numbers(n: int) -> list[int]:
    return sorted({int(k) for k in np.geomspace(1, n, COUNTS).round()})


def _times(one: Draft, soonest_s: float, limit_s: float | None) -> Floats:
    """Times from the quickest to what the cheapest node takes alone, or to the limit."""
    samples, nodes = one.instance.samples, one.per_sample()[0]
    latest = float((one.start[0] + (samples + one.batches[0]) * nodes)[np.isfinite(nodes)].min()) * SLACK
    end = latest if limit_s is None else min(latest, limit_s)
    return np.append(np.geomspace(min(soonest_s, end), end, PLACES), end)


def _unit_usd(one: Draft, stores: Ints) -> Floats:
    """What a sample costs on each node; infinite where it has no room."""
    instance = one.instance
    return np.asarray(instance.usd_per_s * one.per_sample()[0] + instance.usd_per_sample[stores, instance.nodes])


def _filled(one: Draft, order: Ints, time: float) -> Ints | None:
    """Samples for the first nodes of ``order`` until all are dealt, each as many as it can do by ``time``."""
    from littoral.planning.shards import done_by

    room_for = done_by(one, np.array([time]))[0]
    late = one.start[0] + one.full()[0] > time
    room_for = np.where(late, 0, room_for)
    shards, left = np.zeros_like(room_for), one.instance.samples
    for node in order:
        take = min(int(room_for[node]), left)
        if take >= one.batches[0, node]:
            shards[node], left = take, left - take
    return shards if left == 0 else None


def undominated(instance: Instance, pool: Sequence[Scheme]) -> list[Scheme]:
    """Those that no other beats in time, cost and fairness at once, by rising time."""
    rows = np.array([[s.total_s, s.cost_usd, -jain(instance, s)] for s in pool])
    kept: list[int] = []
    for i in np.lexsort(rows.T[::-1]):
        if not any((rows[k] <= rows[i] * np.where(rows[i] < 0, 1 / SLACK, SLACK)).all() for k in kept):
            kept.append(int(i))
    return [pool[i] for i in kept]


def thinned(schemes: Sequence[Scheme], points: int) -> list[Scheme]:
    """At most so many of them, evenly along the row, both ends included."""
    if len(schemes) <= points:
        return list(schemes)
    return [schemes[i] for i in np.unique(np.linspace(0, len(schemes) - 1, points).round().astype(int))]
