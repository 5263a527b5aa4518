"""One job, three wishes: soon, cheap, fair; and what is between them.

Cost is every worker's price while it is busy, the servers' until the end, and the samples moved. A burden is the time
a node is busy; fairness is Jain's index of the burdens of all nodes that have room, 1 when all carry the same and 1/n
when one carries all, and the smallest share is what max-min fairness raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from littoral.errors import Infeasible
from littoral.planning.instance import Floats, Instance, Ints, Scheme, evaluate
from littoral.planning.room import Room
from littoral.planning.shards import Draft, apportioned, done_by, draft, spread, whole
from littoral.units import show_duration

TIMES = 12  # between the quickest and the cheapest that are tried
COUNTS = 16  # numbers of cheap nodes that are tried
CAPS = 3  # largest batches that are tried, each half of the last
BLENDS = (0.25, 0.5, 0.75)
SLACK = 1 + 1e-9


def jain(scheme: Scheme, nodes: Ints) -> float:
    """(sum x)^2 / (n sum x^2) over the burdens of these nodes."""
    carried = np.array(scheme.busy_s)[nodes]
    return float(carried.sum() ** 2 / (len(carried) * (carried**2).sum()))


def show_index(index: float) -> str:
    """Rounded down, so that less than 1 never reads as 1."""
    return f"{math.floor(1e5 * index) / 1e5:g}"


def smallest_share(scheme: Scheme, nodes: Ints) -> float:
    """The part of all burden that the least burdened of these nodes carries; 1/n at best."""
    carried = np.array(scheme.busy_s)[nodes]
    return float(carried.min() / carried.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a scheme must keep; None: anything goes."""

    time_s: float | None = None
    cost_usd: float | None = None
    fairness: float | None = None  # Jain's index at least

    def kept(self, scheme: Scheme, nodes: Ints) -> bool:
        return (
            (self.time_s is None or scheme.total_s <= self.time_s * SLACK)
            and (self.cost_usd is None or scheme.cost_usd <= self.cost_usd * SLACK)
            and (self.fairness is None or jain(scheme, nodes) * SLACK >= self.fairness)
        )

    def refusal(self, pool: Sequence[Scheme], nodes: Ints) -> Infeasible:
        """Names the limits that nothing found keeps, with the best there is."""
        soon, cheap = min(s.total_s for s in pool), min(s.cost_usd for s in pool)
        fair = max(jain(s, nodes) for s in pool)
        found = []
        if self.time_s is not None and soon > self.time_s * SLACK:
            found.append(f"time binds: {show_duration(soon)} at best, the limit is {show_duration(self.time_s)}")
        if self.cost_usd is not None and cheap > self.cost_usd * SLACK:
            found.append(f"cost binds: {cheap:.4g} USD at best, the limit is {self.cost_usd:.4g} USD")
        if self.fairness is not None and fair * SLACK < self.fairness:
            found.append(f"fairness binds: {show_index(fair)} at best, the floor is {self.fairness:g}")
        return Infeasible("; ".join(found) or "time, cost and fairness bind together: each limit can be kept alone")


def merit(scheme: Scheme, nodes: Ints, objective: str) -> tuple[float, ...]:
    """Smaller is better."""
    if objective == "cost":
        return scheme.cost_usd, scheme.total_s
    if objective == "fairness":
        return -round(smallest_share(scheme, nodes), 6), -jain(scheme, nodes), scheme.total_s
    return scheme.total_s, scheme.cost_usd


def candidates(instance: Instance, space: Room, quickest: Scheme, limit_s: float | None) -> list[Scheme]:
    """Schemes worth comparing: the quickest, fair ones, cheap ones for a range of times, and some in between."""
    pool = [quickest]
    for placement in range(len(instance.server_choices)):
        fair = list(_fair(instance, space, placement))
        cheap = list(_cheap(instance, space, placement, quickest.total_s, limit_s))
        pool += fair + cheap
        if fair and cheap:
            fairest = min(fair, key=lambda scheme: merit(scheme, space.nodes, "fairness"))
            pool += _blends(instance, space, fairest, min(cheap, key=lambda scheme: scheme.cost_usd))
    return pool


def _fair(instance: Instance, space: Room, placement: int) -> Iterator[Scheme]:
    """Everybody with room busy for the same time, for every cap on the batches: small ones end closer together."""
    for cap in space.rungs:
        batches = np.maximum(space.largest(space.nodes, cap), space.smallest(space.nodes))
        every = spread(instance, space.nodes, batches)
        times, shards = whole(draft(instance, every, placement))
        if np.isfinite(times[0]):
            yield evaluate(instance, shards[0], every, placement, reasons=("everybody carries the same burden",))


def _cheap(
    instance: Instance, space: Room, placement: int, soonest_s: float, limit_s: float | None
) -> Iterator[Scheme]:
    """For times, caps on batches and numbers of nodes: the cheapest nodes filled up to that time, one by one."""
    caps = {int(instance.rungs[-1]) >> halvings for halvings in range(CAPS)}
    for cap, stores in product(sorted(caps), _sources(instance)):
        batches = space.largest(instance.nodes, cap)
        order = np.argsort(_unit_usd(draft(instance, batches, placement, stores), stores), kind="stable")
        order = order[batches[order] > 0]
        for count in _numbers(len(order)):
            one = draft(instance, spread(instance, order[:count], batches[order[:count]]), placement, stores)
            for time in _times(one, int(order[0]), soonest_s, limit_s):
                shards = _filled(one, order[:count], time)
                if shards is not None:
                    kept = np.where(shards > 0, batches, 0)
                    yield evaluate(instance, shards, kept, placement, stores, (f"the cheapest by {time:.4g} s",))


def _blends(instance: Instance, space: Room, fair: Scheme, cheap: Scheme) -> Iterator[Scheme]:
    """Shards between those of two schemes."""
    most = np.maximum(fair.batches, cheap.batches)
    for part in BLENDS:
        shards = apportioned(instance.samples, part * np.array(fair.shards) + (1 - part) * np.array(cheap.shards))
        batches = space.largest(instance.nodes, np.minimum(most, shards))
        if ((batches > 0) == (shards > 0)).all():
            reason = f"{part:.0%} of the way from cheap to fair"
            yield evaluate(instance, shards, batches, cheap.servers, cheap.stores, (reason,))


def _sources(instance: Instance) -> list[Ints]:
    """From the store that is nearest, and from the one that is cheapest for the time and the data together."""
    usd = instance.usd_per_sample + instance.usd_per_s * instance.transfer_s_per_sample
    near, cheap = instance.nearest, np.argmin(usd, axis=0)
    return [near] if np.array_equal(near, cheap) else [near, cheap]


def _numbers(n: int) -> list[int]:
    return sorted({int(k) for k in np.geomspace(1, n, COUNTS).round()}) if n else []


def _times(one: Draft, cheapest: int, soonest_s: float, limit_s: float | None) -> Floats:
    """Times from the quickest to what the cheapest node takes alone, or to the limit."""
    alone = one.start[0] + (one.instance.samples + one.batches[0]) * one.per_sample()[0]
    end = float(alone[cheapest]) if limit_s is None else min(float(alone[cheapest]), limit_s)
    return np.append(np.geomspace(min(soonest_s, end), end, TIMES), end)


def _unit_usd(one: Draft, stores: Ints) -> Floats:
    """What a sample costs on each node; infinite where it has no room."""
    instance = one.instance
    return np.asarray(instance.usd_per_s * one.per_sample()[0] + instance.usd_per_sample[stores, instance.nodes])


def _filled(one: Draft, order: Ints, time: float) -> Ints | None:
    """Samples for the first nodes of ``order`` until all are dealt, each as many as it can do by ``time``."""
    late = (one.start + one.full())[0] > time * SLACK
    most = np.where(late, 0, done_by(one, np.array([time * SLACK]))[0])[order]
    shards = np.clip(one.instance.samples - (np.cumsum(most) - most), 0, most)
    if shards.sum() < one.instance.samples:
        return None
    some = np.flatnonzero(shards)
    least = one.batches[0, order[some]]
    lacking = max(int(least[-1] - shards[some[-1]]), 0)  # the last one may get less than a batch: the first gives way
    shards[some[-1]] += lacking
    shards[some[0]] -= lacking
    return spread(one.instance, order, shards) if shards[some[0]] >= least[0] else None


def undominated(pool: Sequence[Scheme], nodes: Ints) -> list[Scheme]:
    """Those that no other beats in time, cost and fairness at once, by rising time."""
    rows = np.array([[s.total_s, s.cost_usd, -jain(s, nodes)] for s in pool])
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
