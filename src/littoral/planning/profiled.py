"""What is foretold of the nodes from measurements: a profile's estimators, asked for all nodes of a kind at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from littoral.errors import InputError
from littoral.job import Job
from littoral.learning.task import Footprint
from littoral.planning.answers import Answers, whole
from littoral.planning.instance import Array, Floats, Ints, Placement
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.features import UPDATE, Company, matrix, state_columns
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import load
from littoral.profiling.rows import State

MEMORY = 0.9  # of a device that training may fill with everything else on it
TYPICAL = 64  # states of a kind that updates are foretold for: others count as one of these


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
    rows = {kind: profile.training_of(kind, job.workload) for kind in known}
    measured = {kind: [row.before for row in mine] for kind, mine in rows.items()}
    states = [calm_state(job, device, measured[kinds[device]]) for device in devices]
    among = [row.server for mine in rows.values() for row in mine]
    beside = [calm_state(job, server, among) for server in servers]
    return ProfiledPerformance(known, [kinds[device] for device in devices], states, beside, apps)


def calm_state(job: Job, device: str, measured: Sequence[State]) -> State:
    """A device's state before training: the calmest that was measured (else idle), with the described load on top."""
    calmest = min(measured, key=lambda state: state.cpu, default=State())
    load = job.continuum.device(device).load.mean()
    return replace(calmest, cpu=min(1.0, calmest.cpu + load), load=calmest.load + load)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of device: what was learned of it, and the states that its nodes are in, as columns."""

    known: Estimators
    first: int  # of the numbers of its cases, which follow each other
    states: Mapping[str, Floats]

    @property
    def end(self) -> int:
        return self.first + len(self.states["cpu"])

    def among(self, cases: Ints) -> Ints:
        """Where these are of this kind."""
        return np.flatnonzero((cases >= self.first) & (cases < self.end))

    def states_of(self, cases: Ints) -> dict[str, Floats]:
        return {name: column[cases - self.first] for name, column in self.states.items()}


class ProfiledPerformance:
    """Nodes by kind and present state. ``apps`` are those of the instance, each with the nodes it runs on.

    Nodes of a kind in the same state, with the same apps, are one *case* and foretold once. Updates depend on all who
    work, so that they are asked for again with every change of somebody's batch: where a kind has more than ``TYPICAL``
    cases, they are foretold for that many, and those that are alike share one.
    Several servers share the work of one: their update takes as long as the slowest of them would, divided by their
    number. That division is assumed, not measured.
    """

    def __init__(
        self, estimators: Mapping[str, Estimators], kinds: Sequence[str], states: Sequence[State],
        servers: Sequence[State], apps: Sequence[tuple[str, frozenset[int]]] = (),
    ) -> None:  # fmt: skip
        self._servers, self._apps = list(servers), [app for app, _ in apps]
        has = [tuple(node in places for _, places in apps) for node in range(len(kinds))]
        nodes = list(zip(kinds, states, has, strict=True))
        order = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
        cases = sorted(dict.fromkeys(nodes), key=lambda case: order[case[0]])
        number = {case: place for place, case in enumerate(cases)}
        self._case = np.array([number[node] for node in nodes])
        self._has = np.array([case[2] for case in cases], dtype=bool).reshape(len(cases), len(apps))
        self._kinds: list[_Kind] = []
        for kind in order:
            mine = [case for case in cases if case[0] == kind]
            columns = state_columns([state for _, state, _ in mine])
            self._kinds.append(_Kind(known=estimators[kind], first=number[mine[0]], states=columns))
        everybody = np.arange(len(cases))
        self._compute, self._late = Answers(everybody, self._ask_compute), Answers(everybody, self._ask_latencies)
        self._questions: dict[tuple[int, bytes, int], Floats] = {}

    def is_measured(self, node: int) -> bool:
        """Whether what is said of a node was learned; otherwise it is a guess."""
        return next(kind.known.known for kind in self._kinds if self._case[node] < kind.end)

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        sizes, cases = whole(batches), self._case[nodes]
        return self._ask_compute(cases, batches) if sizes is None else self._compute.of(cases, sizes)

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        if np.ndim(batches) > 1:
            return np.stack([self.update_seconds(nodes, row, servers) for row in np.asarray(batches)])
        asked = np.asarray(batches, float)
        company = Company(workers=len(asked), batch_mean=float(asked.mean()), batch_max=float(asked.max()))
        sizes, size = np.unique(asked, return_inverse=True)
        cases = self._typical[self._case[nodes]]
        answer = np.empty(len(nodes))
        for number, kind in enumerate(self._crowd):
            if len(mine := kind.among(cases)):
                each = np.max([self._updates(number, sizes, at, company) for at in servers], axis=0)
                answer[mine] = each[size[mine], cases[mine] - kind.first]
        return answer / len(servers)

    def largest_batch(self, nodes: Ints) -> Ints:
        return np.asarray(self._largest[self._case[nodes]])

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        """What hardly a period takes longer than (``longest_time``), beside training."""
        sizes, cases = whole(batches), self._case[nodes]
        return self._ask_latencies(cases, batches) if sizes is None else self._late.of(cases, sizes)

    # -- updates ----------------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> list[list[Ints]]:
        """The cases of every kind, in groups that are alike."""
        return [self._alike(kind) for kind in self._kinds]

    @cached_property
    def _crowd(self) -> list[_Kind]:
        """The kinds with their typical states, which have numbers of their own."""
        found, first = [], 0
        for kind, groups in zip(self._kinds, self._groups, strict=True):
            middle = np.array([group[len(group) // 2] for group in groups])
            found.append(_Kind(known=kind.known, first=first, states=kind.states_of(middle)))
            first += len(middle)
        return found

    @cached_property
    def _typical(self) -> Ints:
        """For each case the number of the state that stands for it."""
        found = np.empty(len(self._has), np.int64)
        for number, group in enumerate(chain.from_iterable(self._groups)):
            found[group] = number
        return found

    def _alike(self, kind: _Kind) -> list[Ints]:
        """Cases of a kind in groups: alone, or at most ``TYPICAL`` whose updates take equally long in one company."""
        cases = np.arange(kind.first, kind.end)
        if len(cases) <= TYPICAL:
            return np.array_split(cases, len(cases))
        batch = max(1.0, kind.known.largest_measured() ** 0.5)
        company = Company(workers=len(self._case), batch_mean=batch, batch_max=batch)
        seconds = kind.known.update_time(kind.states, batch, self._servers[0], company, level=None).mean
        return np.array_split(cases[np.argsort(seconds, kind="stable")], TYPICAL)

    def _updates(self, number: int, sizes: Floats, server: int, company: Company) -> Floats:
        """(sizes, typical states) of a kind. Columns are made once; from then on only the company changes in them."""
        kind, key = self._crowd[number], (number, sizes.tobytes(), server)
        states = len(kind.states["cpu"])
        if key not in self._questions:
            columns = {name: np.tile(column, len(sizes)) for name, column in kind.states.items()}
            self._questions[key] = matrix(UPDATE, columns, batch=np.repeat(sizes, states), server=self._servers[server],
                                          workers=1.0, batch_mean=1.0, batch_max=1.0)  # fmt: skip
        question = self._questions[key].copy()
        for name in ("workers", "batch_mean", "batch_max"):
            question[:, UPDATE.columns.index(name)] = getattr(company, name)
        return kind.known.estimator("update").predict(question).reshape(len(sizes), states)

    # -- asking the estimators about cases ----------------------------------------------------------------------------

    @cached_property
    def _largest(self) -> Ints:
        found = [kind.known.max_batch(kind.states, limit=MEMORY) for kind in self._kinds]
        return np.concatenate(found).astype(np.int64)

    def _ask_compute(self, cases: Ints, batches: Array) -> Floats:
        return self._by_kind(cases, batches, lambda one, states, b: one.compute_time(states, b, level=None).mean)

    def _ask_latencies(self, cases: Ints, batches: Array) -> Floats:
        table, sizes = np.full((len(cases), len(self._apps)), np.nan), np.asarray(batches)
        for column, app in enumerate(self._apps):
            here = np.flatnonzero(self._has[cases, column])
            table[here, column] = self._by_kind(
                cases[here], sizes[here], lambda one, states, b, app=app: one.longest_time(app, states, b)
            )
        return table

    def _by_kind(self, cases: Ints, batches: Array, ask: Callable[..., Any]) -> Floats:
        answer, sizes = np.empty(len(cases)), np.asarray(batches, dtype=float)
        for kind in self._kinds:
            if len(mine := kind.among(cases)):
                answer[mine] = ask(kind.known, kind.states_of(cases[mine]), sizes[mine])
        return answer
