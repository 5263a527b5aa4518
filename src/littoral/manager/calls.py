"""What can be asked of a manager, as values: a request and the type of its answer. Clients send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar
from uuid import uuid4

from littoral.manager.continuums import ContinuumRecord
from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.events import ManagerEvent
from littoral.manager.jobs import JobRecord, RunOptions
from littoral.manager.paging import Page
from littoral.manager.plans import PlanRecord
from littoral.manager.profiles import ProfileRecord
from littoral.manager.runs import Run
from littoral.profiling.rows import State

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request. ``answer`` is the type of what comes back, ``key`` the idempotency key of one that creates.

    ``body`` is sent as JSON, ``content`` as it is.
    """

    method: str
    path: str
    answer: Any = None  # a type form of T; None: nothing comes back
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that was kept, and its run, which waits for its turn."""

    job: JobRecord
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plans that were made: one, or the front."""

    plans: list[PlanRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    run: int
    result: dict[str, Any]


def _query(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def submit(job: Mapping[str, Any], options: RunOptions, plan: int | None) -> Call[Submitted]:
    """Keep a job and queue its run."""
    named = {"world": options.world, "lab": options.lab, "seed": options.seed, "timing_only": options.timing_only}
    body = {"job": dict(job), "options": named, "plan": plan}
    return Call(method="POST", path="/jobs", answer=Submitted, body=body, key=str(uuid4()))


def plan(job: Mapping[str, Any], simulate: bool, pareto: bool) -> Call[Planned]:
    """Plan a job without running it."""
    params = {"simulate": str(simulate).lower(), "pareto": str(pareto).lower()}
    return Call(method="POST", path="/plans", answer=Planned, params=params, body={"job": dict(job)}, key=str(uuid4()))


def put_continuum(name: str, document: Mapping[str, Any]) -> Call[ContinuumRecord]:
    """Keep a continuum."""
    return Call(method="PUT", path=f"/continuums/{name}", answer=ContinuumRecord, body=dict(document))


def put_profile(name: str, files: Mapping[str, str]) -> Call[ProfileRecord]:
    """Keep a profile."""
    return Call(method="PUT", path=f"/profiles/{name}", answer=ProfileRecord, body={"files": dict(files)})


def run(number: int) -> Call[Run]:
    """One run."""
    return Call(method="GET", path=f"/runs/{number}", answer=Run)


def runs(limit: int, after: str | None, state: str | None, newest: bool) -> Call[Page[Run]]:
    """A page of runs."""
    params = _query(limit=limit, after=after, state=state, newest=str(newest).lower())
    return Call(method="GET", path="/runs", answer=Page[Run], params=params)


def result(number: int) -> Call[_Result]:
    """What came out of a run."""
    return Call(method="GET", path=f"/runs/{number}/result", answer=_Result)


def journal(number: int, limit: int, after: str | None) -> Call[Page[dict[str, Any]]]:
    """A page of a run's journal."""
    params = _query(limit=limit, after=after)
    return Call(method="GET", path=f"/runs/{number}/journal", answer=Page[dict[str, Any]], params=params)


def log(number: int) -> Call[str]:
    """What a run's process printed."""
    return Call(method="GET", path=f"/runs/{number}/log", answer=str)


def stop(number: int) -> Call[Run]:
    """Stop a run."""
    return Call(method="POST", path=f"/runs/{number}/stop", answer=Run)


def resume(number: int) -> Call[Run]:
    """Go on with a run."""
    return Call(method="POST", path=f"/runs/{number}/resume", answer=Run)


def devices(limit: int, after: str | None, continuum: str | None) -> Call[Page[DeviceRecord]]:
    """A page of devices."""
    params = _query(limit=limit, after=after, continuum=continuum)
    return Call(method="GET", path="/devices", answer=Page[DeviceRecord], params=params)


def apps(limit: int, after: str | None, continuum: str | None) -> Call[Page[AppRecord]]:
    """A page of apps."""
    params = _query(limit=limit, after=after, continuum=continuum)
    return Call(method="GET", path="/apps", answer=Page[AppRecord], params=params)


def pardon(device: str) -> Call[dict[str, Any]]:
    """Forgive a device its strikes."""
    return Call(method="POST", path=f"/devices/{device}/pardon", answer=dict[str, Any])


def heartbeat(device: str, sent: float, load: State) -> Call[dict[str, Any]]:
    """Say that a device is there and how busy it is."""
    body = {"sent": sent, "load": asdict(load)}
    return Call(method="POST", path=f"/devices/{device}/heartbeat", answer=dict[str, Any], body=body)


def events(limit: int, after: str | None, kind: str | None, subject: str | None) -> Call[Page[ManagerEvent]]:
    """A page of events."""
    params = _query(limit=limit, after=after, kind=kind, subject=subject)
    return Call(method="GET", path="/events", answer=Page[ManagerEvent], params=params)
