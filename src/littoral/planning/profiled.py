"""What is foretold of the nodes from measurements: a profile's estimators, asked for all nodes of a kind at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from littoral.errors import InputError
from littoral.job import Job
from littoral.learning.task import Footprint
from littoral.planning.instance import Array, Floats, Ints, Placement
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.features import Company
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import load
from littoral.profiling.rows import State

MEMORY = 0.9  # of a device that training may fill with everything else on it
_TABLED = 2**16  # batches of nodes that are foretold once: a search asks for the same ones thousands of times


def from_profile(job: Job, devices: Sequence[str], servers: Sequence[str], footprint: Footprint) -> ProfiledPerformance:
    """What a job's profile says of these devices, beside these servers.

    What state they are in is not known when planning: the calmest that was measured, with the described load on top.
    Kinds that were not measured are refused, or guessed from the catalogue if the job says so.
    """
    assert job.profile is not None
    folder = Path(job.profile)
    try:
        profile, kinds = load(folder), kinds_of(job, devices)
        guess = footprint if job.unmeasured == "guess" else None
        known = {kind: estimators(profile, kind, job.workload, guess=guess) for kind in dict.fromkeys(kinds.values())}
        apps = [(app.name, frozenset(i for i, d in enumerate(devices) if d in app.on)) for app in job.continuum.apps]
        for app, places in apps:
            for kind in dict.fromkeys(kinds[devices[i]] for i in sorted(places)):
                known[kind].estimator(f"tail:{app}")
    except InputError as error:
        raise InputError(error.found, file=error.file, line=error.line, remedy=error.remedy, key="profile") from error
    states = [calm_state(job, device, [row.before for row in profile.training_of(kinds[device], job.workload)])
              for device in devices]  # fmt: skip
    rows = [row for kind in known for row in profile.training_of(kind, job.workload)]
    beside = [calm_state(job, server, [row.server for row in rows]) for server in servers]
    return ProfiledPerformance(known, [kinds[device] for device in devices], states, beside, apps)


def calm_state(job: Job, device: str, measured: Sequence[State]) -> State:
    """A device's state before training: the calmest that was measured (else idle), with the described load on top."""
    calmest = min(measured, key=lambda state: state.cpu, default=State())
    load = job.continuum.device(device).load.mean()
    return replace(calmest, cpu=min(1.0, calmest.cpu + load), load=calmest.load + load)


class ProfiledPerformance:
    """Nodes by kind and present state. ``apps`` are those of the instance, each with the nodes it runs on.

    Several servers share the work of one: their update takes as long as the slowest of them would, divided by their
    number. That division is assumed, not measured.
    """

    def __init__(
        self, estimators: Mapping[str, Estimators], kinds: Sequence[str], states: Sequence[State],
        servers: Sequence[State], apps: Sequence[tuple[str, frozenset[int]]] = (),
    ) -> None:  # fmt: skip
        self._estimators, self._kinds, self._states = estimators, np.array(kinds), list(states)
        self._servers, self._apps = list(servers), list(apps)

    def is_measured(self, node: int) -> bool:
        """Whether what is said of a node was learned; otherwise it is a guess."""
        return self._estimators[str(self._kinds[node])].known

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        if self._is_tabled(batches):
            return np.asarray(self._compute_table[nodes, np.asarray(batches, np.int64) - 1])
        return self._compute(nodes, batches)

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        if np.ndim(batches) > 1:
            return np.stack([self.update_seconds(nodes, row, servers) for row in np.asarray(batches)])
        company = Company.of([int(batch) for batch in np.asarray(batches)])

        def seconds(one: Estimators, states: Sequence[State], batches: Array, at: State) -> Floats:
            return one.update_time(states, batches, at, company, level=None).mean

        each = [self._by_kind(nodes, batches, partial(seconds, at=self._servers[number])) for number in servers]
        return np.asarray(np.max(each, axis=0) / len(servers))

    def largest_batch(self, nodes: Ints) -> Ints:
        found = self._by_kind(nodes, np.ones(len(nodes)), lambda one, states, b: one.max_batch(states, limit=MEMORY))
        return found.astype(np.int64)

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        """What hardly a period takes longer than (``longest_time``), beside training."""
        if self._is_tabled(batches):
            return np.asarray(self._latency_table[nodes, np.asarray(batches, np.int64) - 1])
        return self._latencies(nodes, batches)

    # -- answers for every batch of every node, where these are few -----------------------------------------------

    @cached_property
    def _most(self) -> int:
        sizes = [one.largest_measured() for one in self._estimators.values() if one.known]
        return max(sizes, default=1)

    def _is_tabled(self, batches: Array) -> bool:
        asked = np.asarray(batches)
        if not asked.size or len(self._states) * self._most > _TABLED:
            return False
        return bool(asked.min() >= 1 and asked.max() <= self._most and (asked == np.floor(asked)).all())

    @cached_property
    def _compute_table(self) -> Floats:
        return self._compute(*self._all()).reshape(len(self._states), self._most)

    @cached_property
    def _latency_table(self) -> Floats:
        return self._latencies(*self._all()).reshape(len(self._states), self._most, len(self._apps))

    def _all(self) -> tuple[Ints, Ints]:
        nodes, batches = np.meshgrid(np.arange(len(self._states)), np.arange(1, self._most + 1), indexing="ij")
        return nodes.ravel(), batches.ravel()

    # -- asking the estimators --------------------------------------------------------------------------------------

    def _compute(self, nodes: Ints, batches: Array) -> Floats:
        return self._by_kind(nodes, batches, lambda one, states, b: one.compute_time(states, b, level=None).mean)

    def _latencies(self, nodes: Ints, batches: Array) -> Floats:
        table = np.full((len(nodes), len(self._apps)), np.nan)
        for column, (app, places) in enumerate(self._apps):
            here = np.array([node in places for node in nodes.tolist()], dtype=bool)
            if here.any():
                table[here, column] = self._by_kind(
                    nodes[here], np.asarray(batches)[here],
                    lambda one, states, b, app=app: one.longest_time(app, states, b),
                )  # fmt: skip
        return table

    def _by_kind(self, nodes: Ints, batches: Array, ask: Callable[..., Any]) -> Floats:
        answer = np.empty(len(nodes))
        for kind in np.unique(self._kinds[nodes]):
            mine = np.flatnonzero(self._kinds[nodes] == kind)
            states = [self._states[node] for node in nodes[mine]]
            answer[mine] = ask(self._estimators[str(kind)], states, np.asarray(batches, dtype=float)[mine])
        return answer
