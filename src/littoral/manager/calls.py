"""What can be asked of a manager, as values: a request and the type of its answer. Clients send them.

Both clients have what is here and in ``model_calls`` as methods, with these parameters and docstrings.
"""

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
    """A request. ``answer`` is the type of what comes back, ``part`` the field of it that is wanted, if not all.

    ``body`` is sent as JSON, ``content`` as it is. ``key`` is the idempotency key of a request that creates.
    """

    method: str
    path: str
    answer: Any = None  # a type form of T, or of what has T as a part; None: nothing comes back
    part: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pardon:
    forgiven: int


def _query(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def submit(job: Mapping[str, Any], options: RunOptions = RunOptions(), *, plan: int | None = None) -> Call[Submitted]:
    """Keep a job and queue its run."""
    named = {"world": options.world, "lab": options.lab, "seed": options.seed, "timing_only": options.timing_only}
    body = {"job": dict(job), "options": named, "plan": plan}
    return Call(method="POST", path="/jobs", answer=Submitted, body=body, key=str(uuid4()))


def plan(job: Mapping[str, Any], *, simulate: bool = False, pareto: bool = False) -> Call[Planned]:
    """Plan a job without running it; ``pareto`` gives all plans between quick, cheap and fair."""
    params = {"simulate": str(simulate).lower(), "pareto": str(pareto).lower()}
    return Call(method="POST", path="/plans", answer=Planned, params=params, body={"job": dict(job)}, key=str(uuid4()))


def put_continuum(name: str, document: Mapping[str, Any]) -> Call[ContinuumRecord]:
    """Keep a continuum."""
    return Call(method="PUT", path=f"/continuums/{name}", answer=ContinuumRecord, body=dict(document))


def put_profile(name: str, files: Mapping[str, str]) -> Call[ProfileRecord]:
    """Keep a profile."""
    return Call(method="PUT", path=f"/profiles/{name}", answer=ProfileRecord, body={"files": dict(files)})


def run(number: int) -> Call[Run]:
    """One run and how far it is."""
    return Call(method="GET", path=f"/runs/{number}", answer=Run)


def runs(
    *, limit: int = 50, after: str | None = None, state: str | None = None, newest: bool = False
) -> Call[Page[Run]]:
    """A page of runs, the oldest first or the newest."""
    params = _query(limit=limit, after=after, state=state, newest=str(newest).lower())
    return Call(method="GET", path="/runs", answer=Page[Run], params=params)


def result(number: int) -> Call[dict[str, Any]]:
    """What came out of a run."""
    return Call(method="GET", path=f"/runs/{number}/result", answer=_Result, part="result")


def journal(number: int, *, limit: int = 500, after: str | None = None) -> Call[Page[dict[str, Any]]]:
    """A page of a run's journal."""
    params = _query(limit=limit, after=after)
    return Call(method="GET", path=f"/runs/{number}/journal", answer=Page[dict[str, Any]], params=params)


def log(number: int) -> Call[str]:
    """The end of what a run's process printed."""
    return Call(method="GET", path=f"/runs/{number}/log", answer=str)


def stop(number: int) -> Call[Run]:
    """Stop a run once it has written a checkpoint."""
    return Call(method="POST", path=f"/runs/{number}/stop", answer=Run)


def resume(number: int) -> Call[Run]:
    """Go on with a stopped or failed run."""
    return Call(method="POST", path=f"/runs/{number}/resume", answer=Run)


def devices(*, limit: int = 500, after: str | None = None, continuum: str | None = None) -> Call[Page[DeviceRecord]]:
    """A page of devices and what they are doing."""
    params = _query(limit=limit, after=after, continuum=continuum)
    return Call(method="GET", path="/devices", answer=Page[DeviceRecord], params=params)


def apps(*, limit: int = 500, after: str | None = None, continuum: str | None = None) -> Call[Page[AppRecord]]:
    """A page of background apps."""
    params = _query(limit=limit, after=after, continuum=continuum)
    return Call(method="GET", path="/apps", answer=Page[AppRecord], params=params)


def pardon(device: str) -> Call[int]:
    """Forgive a device its strikes; how many."""
    return Call(method="POST", path=f"/devices/{device}/pardon", answer=_Pardon, part="forgiven")


def heartbeat(device: str, sent: float, load: State) -> Call[dict[str, Any]]:
    """Say that a device is there and how busy it is."""
    body = {"sent": sent, "load": asdict(load)}
    return Call(method="POST", path=f"/devices/{device}/heartbeat", answer=dict[str, Any], body=body)


def events(
    *, limit: int = 500, after: str | None = None, kind: str | None = None, subject: str | None = None
) -> Call[Page[ManagerEvent]]:
    """A page of what happened."""
    params = _query(limit=limit, after=after, kind=kind, subject=subject)
    return Call(method="GET", path="/events", answer=Page[ManagerEvent], params=params)
