"""``/plans``: what would be done for a job, without doing it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from sqlite3 import Connection
from typing import Annotated, Any

from fastapi import APIRouter, Query

from littoral.manager.calls import Planned
from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.planning import Wish
from littoral.manager.plans import PlanRecord
from littoral.manager.requests import STRICT, Document, Number, Once, Operator, Viewer, Wanted, resource


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsked:
    """A job's document: its YAML file as JSON, with the names of a continuum and a profile that the manager keeps."""

    __pydantic_config__ = STRICT
    job: Document


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("plans", "/plans")

    @routes.get("")
    def list_plans(
        window: Wanted, by: Viewer, name: Annotated[str | None, Query(max_length=100, description="The job's.")] = None
    ) -> Page[PlanRecord]:
        """Plans, the oldest first."""
        return manager.plans.listed(window, name)

    @routes.get("/{number}")
    def get_plan(number: Number, by: Viewer) -> PlanRecord:
        """One plan with its prediction and its reasons."""
        return manager.plans.get(number)

    @routes.post("", status_code=201, response_model=Planned)
    def make_plans(
        body: PlanAsked, by: Operator, asked: Once,
        simulate: Annotated[bool, Query(description="Also run each in virtual time, without mathematics.")] = False,
        pareto: Annotated[bool, Query(description="All plans between quick, cheap and fair.")] = False,
    ) -> Any:  # fmt: skip
        """Plan a job without running it. 409 names the limit that no plan keeps."""
        known = manager.idempotency.known(asked)
        if known is not None:
            return known
        given = manager.jobs.check(body.job)
        made = manager.plans.make(given, Wish(pareto=pareto, simulate=simulate))

        def keep(connection: Connection) -> dict[str, Any]:
            return asdict(Planned(plans=manager.plans.keep(connection, given, made)))

        return manager.idempotency.once(asked, keep)

    @routes.delete("/{number}", status_code=204)
    def delete_plan(number: Number, by: Operator) -> None:
        """Forget a plan."""
        with manager.database.write() as connection:
            manager.plans.delete(connection, number)

    return routes
