"""Gathers from a journal's events, one at a time, what happened to each node and when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

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
from littoral.reports.spans import Span, subtract
from littoral.units import show_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something worth telling: ``mark`` is its kind, ``node`` the row it belongs to ('': the whole run)."""

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


@dataclass
class Reader:
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
                self._end(self.lost, self._lost_since, event.node, event.t)  # a server that was relaunched
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
        lasting = f" for {show_duration(event.seconds)}" if event.seconds and event.seconds < 1e12 else " for good"
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
            node: subtract(spans, [*self.computing[node], *self.sending[node], *self.fetching[node], *self.lost[node]])
            for node, spans in self.alive.items()
            if node in workers
        }


def _at(t: float) -> str:
    return show_duration(t) if t else "0 s"
