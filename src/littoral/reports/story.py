"""A run's folder, read into the plain records that tables and figures need.

The journal says what was asked for, planned and done; only the final account comes from ``result.json``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.events import (
    AppChecked,
    Computed,
    EpochFinished,
    Evaluated,
    Event,
    FaultInjected,
    Fetched,
    NodeFinished,
    NodeLost,
    NodeReturned,
    NodeStarted,
    OutOfMemory,
    Resumed,
    RunFinished,
    RunStarted,
    Sent,
)
from littoral.journal import read_journal
from littoral.planning.plan import Plan
from littoral.reports.spans import Span, subtract
from littoral.units import show_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something worth telling: ``mark`` is its kind, ``node`` the row it belongs to ('' for the whole run)."""

    t: float
    mark: str
    node: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Bytes on their way from a node (or, when fetched, a store) to a node."""

    source: str
    target: str
    size: int
    start: float
    stop: float
    fetched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What one run was and did. Spans are per node, in seconds of the run's clock."""

    folder: str
    seed: int
    timing_only: bool
    job: dict[str, Any]
    continuum: Continuum
    plan: Plan
    result: dict[str, Any]
    versions: dict[str, str]
    job_yaml: str
    continuum_yaml: str
    seconds: float
    evaluations: tuple[Evaluated, ...]
    epochs: tuple[float, ...]
    happenings: tuple[Happening, ...]
    apps: tuple[AppChecked, ...]
    transfers: tuple[Transfer, ...]
    computing: dict[str, list[Span]]
    sending: dict[str, list[Span]]
    fetching: dict[str, list[Span]]
    lost: dict[str, list[Span]]
    waiting: dict[str, list[Span]]

    @property
    def detailed(self) -> bool:
        """Whether the journal kept single steps and messages."""
        return bool(self.computing or self.sending)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Servers, then workers, as planned."""
        return tuple(node.name for node in (*self.plan.servers, *self.plan.workers))


def read_story(path: Path) -> Story:
    """The story of the run in a folder (or of the journal that is named)."""
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        raise InputError("there is no such run folder", file=path, remedy="name a folder that 'littoral run' wrote")
    reader = _Reader()
    for event in read_journal(folder / "journal.jsonl"):
        reader.update(event)
    if reader.started is None:
        remedy = "the run never began: repeat it with 'littoral run'"
        raise InputError("the journal has no RunStarted line", file=folder / "journal.jsonl", remedy=remedy)
    return _told(folder, reader, reader.started)


def _told(folder: Path, reader: _Reader, started: RunStarted) -> Story:
    result = _read_json(folder / "result.json", "the run has not finished: let it, or repeat it with 'littoral run'")
    versions = folder / "versions.json"
    continuum_yaml = _yaml(started.continuum)
    try:
        plan = msgspec.convert(started.plan, Plan)
    except msgspec.ValidationError as error:
        remedy = "the journal was changed or comes from another version"
        raise InputError(f"not a plan: {error}", file=folder / "journal.jsonl", line=1, remedy=remedy) from error
    return Story(
        folder=folder.resolve().name,
        seed=started.seed,
        timing_only=started.timing_only,
        job=started.job,
        continuum=_continuum(continuum_yaml),
        plan=plan,
        result=result,
        versions=_read_json(versions, "remove it") if versions.exists() else {},
        job_yaml=_yaml(started.job),
        continuum_yaml=continuum_yaml,
        seconds=reader.now,
        evaluations=tuple(reader.evaluations),
        epochs=tuple(reader.epochs),
        happenings=tuple(reader.happenings),
        apps=tuple(reader.apps),
        transfers=tuple(reader.transfers),
        computing=dict(reader.computing),
        sending=dict(reader.sending),
        fetching=dict(reader.fetching),
        lost=reader.lost_spans(),
        waiting=reader.waits({worker.name for worker in plan.workers}),
    )


@dataclass
class _Reader:
    """Gathers records as events pass."""

    now: float = 0.0
    started: RunStarted | None = None
    evaluations: list[Evaluated] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    apps: list[AppChecked] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    computing: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    sending: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    fetching: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    lost: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    alive: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    _lost_since: dict[str, float] = field(default_factory=dict)
    _alive_since: dict[str, float] = field(default_factory=dict)
    _crashed: dict[str, float] = field(default_factory=dict)

    def update(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case RunStarted():
                self.started = event
                return  # a resumed run begins anew at 0 s, but its clock goes on with Resumed
            case Computed():
                self.computing[event.node].append((event.start, event.t))
            case Sent():
                self.sending[event.source].append((event.start, event.t))
                self._carried(event.source, event.target, event.size, event.start, event.t)
            case Fetched():
                self._fetched(event)
            case Evaluated():
                self.evaluations.append(event)
            case EpochFinished():
                self.epochs.append(event.t)
            case AppChecked():
                self.apps.append(event)
            case NodeStarted():
                self._alive_since.setdefault(event.node, event.t)
            case NodeFinished():
                self._end(self.alive, self._alive_since, event.node, event.t)
            case _:
                self._happened(event)
        self.now = event.t

    def _happened(self, event: Event) -> None:
        match event:
            case Resumed():
                self._go_back(event.t)
                self._tell(event.t, "resumed", "", f"went back to the checkpoint of {_at(event.since)}")
            case FaultInjected():
                self._fault(event)
            case NodeLost():
                self._lost_since.setdefault(event.node, self._crashed.pop(event.node, event.t))
                self._tell(event.t, "lost", event.node, f"{event.node} was found lost: {event.reason}")
            case NodeReturned():
                self._end(self.lost, self._lost_since, event.node, event.t)
                self._tell(event.t, "returned", event.node, f"{event.node} came back")
            case OutOfMemory():
                text = f"{event.node} ran out of memory: a batch of {event.batch} asked for, {event.limit} fit"
                self._tell(event.t, "memory", event.node, text)
            case RunFinished():
                self._tell(event.t, "finished", "", f"the run ended: {event.reason}")

    def _fault(self, event: FaultInjected) -> None:
        # A crashed process does nothing from this moment on, though the others notice only later.
        struck = self._nodes_of(event.target)
        if event.kind == "crash":
            self._crashed |= dict.fromkeys(struck, event.t)
        lasting = f" for {show_duration(event.seconds)}" if event.seconds < 1e12 else " for good"
        left = f" to {event.factor:.3g} of its speed" if event.kind.startswith("slow") else ""
        text = f"fault: {event.kind} of {event.target}{left}{lasting}"
        self._tell(event.t, "fault", struck[0] if len(struck) == 1 else "", text)

    def _nodes_of(self, target: str) -> list[str]:
        plan = self.started.plan if self.started else {}
        nodes = [*plan.get("workers", ()), *plan.get("servers", ())]
        named = [node["name"] for node in nodes if node["name"] == target]
        return named or [node["name"] for node in nodes if node["device"] == target]

    def _fetched(self, event: Fetched) -> None:
        self.fetching[event.node].append((event.start, event.t))
        workers = self.started.plan.get("workers", ()) if self.started else ()
        store = next((worker["store"] for worker in workers if worker["name"] == event.node), None)
        if store is not None:
            self._carried(store, event.node, event.size, event.start, event.t, fetched=True)

    def _carried(
        self, source: str, target: str, size: int, start: float, stop: float, *, fetched: bool = False
    ) -> None:
        transfer = Transfer(source=source, target=target, size=size, start=start, stop=stop, fetched=fetched)
        self.transfers.append(transfer)

    def _tell(self, t: float, mark: str, node: str, text: str) -> None:
        self.happenings.append(Happening(t=t, mark=mark, node=node, text=text))

    def _end(self, into: dict[str, list[Span]], since: dict[str, float], node: str, t: float) -> None:
        if node in since:
            into[node].append((since.pop(node), t))

    def _go_back(self, t: float) -> None:
        """A run resumed by a new process repeats what came after its checkpoint: that never happened."""
        if t >= self.now:
            return
        for kept in (self.computing, self.sending, self.fetching):
            for node in kept:
                kept[node] = [span for span in kept[node] if span[1] <= t]
        self.transfers = [transfer for transfer in self.transfers if transfer.stop <= t]
        self.evaluations = [evaluation for evaluation in self.evaluations if evaluation.t <= t]
        self.epochs = [epoch for epoch in self.epochs if epoch <= t]
        self.happenings = [happening for happening in self.happenings if happening.t <= t]
        self.apps = []

    def lost_spans(self) -> dict[str, list[Span]]:
        """When each node was gone; one that never came back, until the end."""
        for node in list(self._lost_since):
            self._end(self.lost, self._lost_since, node, self.now)
        return dict(self.lost)

    def waits(self, workers: set[str]) -> dict[str, list[Span]]:
        """The gaps in a living worker's time: neither computing, sending nor fetching, and not lost."""
        for node in list(self._alive_since):
            self._end(self.alive, self._alive_since, node, self.now)
        if not self.computing:
            return {}
        return {
            node: subtract(
                spans, [*self.computing[node], *self.sending[node], *self.fetching[node], *self.lost[node]]
            )
            for node, spans in self.alive.items()
            if node in workers
        }


def _at(t: float) -> str:
    return show_duration(t) if t else "0 s"


@lru_cache(maxsize=4)  # the runs of one report mostly share a continuum
def _continuum(text: str) -> Continuum:
    return parse_continuum(text)


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy=remedy) from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path, remedy=remedy) from error
    if not isinstance(found, dict):
        raise InputError("not a JSON object", file=path, remedy=remedy)
    return found
