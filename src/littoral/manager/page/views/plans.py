"""All plans that were made, the newest first."""

from __future__ import annotations

from littoral.manager.page.pieces import Num, ago, empty, heading, link, percent, seconds, table
from littoral.manager.page.view import View, Visit
from littoral.manager.paging import LARGEST, Window
from littoral.manager.plans import PlanRecord

_MOST = 50


def show(visit: Visit) -> str:
    """The newest."""
    found = _newest(visit)
    if not found:
        where = f"<p>{link('/submit', 'Submit a job')}</p>" if visit.may_write else ""
        body = empty("No plans yet. Choose 'Plan first' when you submit a job.", where)
    else:
        heads = ["plan", "strategy", "planner", Num("workers"), Num("time"), Num("cost"), Num("fairness"), "made"]
        body = table("Plans", heads, (_row(visit, plan) for plan in found))
    return heading("Plans") + f'<div class="card">{body}</div>'


def _newest(visit: Visit) -> list[PlanRecord]:
    found: list[PlanRecord] = []
    after: str | None = "0"
    while after is not None:
        part = visit.manager.plans.listed(Window(limit=LARGEST, after=after))
        found, after = (found + part.items)[-_MOST:], part.next
    return found[::-1]


def _row(visit: Visit, record: PlanRecord) -> list[str]:
    plan = record.plan
    return [
        link(f"/plans/{record.number}", f"{record.number} · {record.name}"),
        plan["strategy"],
        plan["planner"],
        str(len(plan["workers"])),
        seconds(plan["predicted"]["time_s"]),
        money(plan["predicted"]["cost_usd"]),
        percent(record.fairness, 0),
        ago(record.created, visit.now),
    ]


def money(value: float) -> str:
    """US dollars."""
    return f"{value:.3g}&nbsp;USD"


VIEW = View(path="/plans", title="Plans", show=show, under="plans", every_s=3.0)
