"""One plan: what it should take and why, who does what, what was considered besides, and a button to run it."""

from __future__ import annotations

from html import escape
from typing import Any

from littoral.manager.page.pieces import NONE, Num, ago, folded, heading, percent, seconds, section, table, tiles
from littoral.manager.page.run_options import options_of, world_field
from littoral.manager.page.view import Fields, Said, View, Visit, number_in
from littoral.manager.page.views.plans import money
from littoral.manager.plans import PlanRecord
from littoral.units import show_bytes, show_duration


def show(visit: Visit) -> str:
    """All about it."""
    record = visit.manager.plans.get(visit.number())
    how = f"{record.plan['strategy']}, planner {record.plan['planner']}"
    note = f"{escape(how)} · made {ago(record.created, visit.now)}"
    top = heading(f"Plan {record.number} · {record.name}", run_form(visit, record), note=note)
    return top + details(record)


def details(record: PlanRecord) -> str:
    """What a plan predicts, its reasons, its workers and servers, and the alternatives."""
    return _predicted(record) + _reasons(record.plan) + _workers(record.plan) + _others(record.plan)


def run_form(visit: Visit, record: PlanRecord) -> str:
    """For operators."""
    if not visit.may_write:
        return ""
    return (
        f'<form data-act="run" class="inline"><input type="hidden" name="plan" value="{record.number}">'
        f'{world_field()}<button class="main">Run plan {record.number}</button></form>'
    )


def _predicted(record: PlanRecord) -> str:
    told, tried = record.plan["predicted"], record.simulated
    remark = f"{show_duration(tried['time_s'])} in a trial in virtual time" if tried else "not tried in virtual time"
    figures = tiles(
        ("Time", seconds(told["time_s"]), remark),
        ("One epoch", seconds(told["epoch_s"]), f"{record.plan['epochs']} epochs at most"),
        ("Cost", money(told["cost_usd"]), "devices and traffic"),
        ("Sent", escape(show_bytes(told["bytes_sent"])), f"{show_bytes(told['wan_bytes'])} between sites"),
        ("Fairness", percent(record.fairness, 0), "Jain's index of burdens"),
    )
    terms = table(
        "Terms of the prediction",
        ["part of the time", Num("seconds"), "by"],
        ([escape(t["name"]), seconds(t["seconds"]), escape(t["formula"])] for t in told["terms"]),
    )
    return figures + (folded("terms", "Where the time goes", terms) if told["terms"] else "")


def _reasons(plan: dict[str, Any]) -> str:
    if not plan["reasons"]:
        return ""
    return section("Why this plan", "<ul>" + "".join(f"<li>{escape(why)}</li>" for why in plan["reasons"]) + "</ul>")


def _workers(plan: dict[str, Any]) -> str:
    total = sum(worker["shard"] for worker in plan["workers"]) or 1
    heads = ["worker", "device", Num("samples"), Num("share"), Num("batch"), Num("samples/s"), "data from"]
    rows = (
        [escape(w["name"]), escape(w["device"]), f"{w['shard']:,}", percent(w["shard"] / total), str(w["batch"]),
         f"{w['samples_per_s']:,.0f}", escape(w["store"] or "") or NONE]
        for w in plan["workers"]
    )  # fmt: skip
    servers = ", ".join(f"{server['name']} on {server['device']}" for server in plan["servers"])
    note = f'<p class="note">Servers: {escape(servers)}.</p>' if servers else ""
    return section("Who does what", table("Workers", heads, rows), note)


def _others(plan: dict[str, Any]) -> str:
    if not plan["alternatives"]:
        return ""
    heads = ["strategy", "planner", Num("time"), Num("between sites"), Num("cost"), "why not"]
    rows = (
        [escape(one["strategy"]), escape(one["planner"]), seconds(one["time_s"]), show_bytes(one["wan_bytes"]),
         money(one["cost_usd"]), escape(one["refused"])]
        for one in plan["alternatives"]
    )  # fmt: skip
    return section("What was considered", table("Alternatives", heads, rows))


def run(visit: Visit, fields: Fields) -> Said:
    """Run a plan of this page for the job that it was made for."""
    manager = visit.manager
    record, options = manager.plans.get(number_in(fields, "plan")), options_of(fields)
    given = manager.jobs.check(record.job)
    with manager.database.write() as connection:
        _, made = manager.jobs.submit(connection, given, options, plan=record.plan)
    manager.launcher.wake()
    return Said("", go=f"/runs/{made.number}")


VIEW = View(path="/plans/{number}", title="Plan", show=show, acts={"run": run}, under="plans", every_s=10.0)
