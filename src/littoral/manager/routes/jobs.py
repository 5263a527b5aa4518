"""``/jobs``: what is to be trained. A job is kept first, then run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from sqlite3 import Connection
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool

from littoral.manager.calls import Submitted
from littoral.manager.jobs import JobRecord, RunOptions
from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.requests import STRICT, Document, Number, Once, Operator, Viewer, Wanted, resource


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRun:
    """``lab`` emulates the continuum on the manager's machine (as root); ``seed`` null: the job's own."""

    __pydantic_config__ = STRICT
    world: Literal["simulated", "processes", "ray"] = "processes"
    lab: StrictBool = False
    seed: Annotated[int | None, Field(ge=0, lt=2**32, strict=True)] = None
    timing_only: StrictBool = False

    def options(self) -> RunOptions:
        """For the parts."""
        return RunOptions(**asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    """A job's document, how to run it, and the number of a plan that was made for it (null: make one)."""

    __pydantic_config__ = STRICT
    job: Document
    options: HowToRun = field(default_factory=HowToRun)
    plan: Annotated[int | None, Field(ge=1, lt=2**63, strict=True)] = None


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("jobs", "/jobs")

    @routes.get("")
    def list_jobs(
        window: Wanted, by: Viewer, name: Annotated[str | None, Query(max_length=100)] = None
    ) -> Page[JobRecord]:
        """Jobs, the oldest first."""
        return manager.jobs.listed(window, name)

    @routes.get("/{number}")
    def get_job(number: Number, by: Viewer) -> JobRecord:
        """One job."""
        return manager.jobs.get(number)

    @routes.post("", status_code=201, response_model=Submitted)
    def submit_job(body: JobAsked, by: Operator, asked: Once) -> Any:
        """Keep a job and queue its run."""
        known = manager.idempotency.known(asked)
        if known is not None:
            return known
        options, given = body.options.options(), manager.jobs.check(body.job)
        plan = None if body.plan is None else manager.plans.get(body.plan).plan

        def keep(connection: Connection) -> dict[str, Any]:
            job, run = manager.jobs.submit(connection, given, options, plan=plan)
            return asdict(Submitted(job=job, run=run))

        answer = manager.idempotency.once(asked, keep)
        manager.launcher.wake()
        return answer

    return routes
