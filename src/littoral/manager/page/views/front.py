"""Plans between quick, cheap and fair: a picture to pick one from, by pointer or by keyboard."""

from __future__ import annotations

from html import escape

from littoral.errors import LittoralError
from littoral.manager.page.pieces import Num, heading, link, percent, seconds, section, table
from littoral.manager.page.plots import Axis, across, plot, up
from littoral.manager.page.view import View, Visit
from littoral.manager.page.views.plan import details, run, run_form
from littoral.manager.page.views.plans import money
from littoral.manager.plans import PlanRecord
from littoral.manager.refusals import Unknown
from littoral.reports.palette import time_axis
from littoral.units import show_duration

_MOST = 60  # plans of one front


def show(visit: Visit) -> str:
    """The front, and the plan that is picked."""
    plans = _plans(visit)
    picked = next((plan for plan in plans if plan.number == visit.number("plan")), plans[0])
    note = f"{len(plans)} plans between quick, cheap and fair: none is better than another in everything."
    top = heading(f"Plans for {picked.name}", run_form(visit, picked), note=note)
    figure = section("Cost in USD against time", _picture(plans, picked), '<p class="note">Larger dots are fairer.</p>')
    choice = section("Pick one", _table(plans, picked))
    return f'{top}<div class="pair">{figure}{choice}</div><h2 class="apart">Plan {picked.number}</h2>{details(picked)}'


def _plans(visit: Visit) -> list[PlanRecord]:
    first, last = visit.number("first"), visit.number("last")
    found = []
    for number in range(first, min(last, first + _MOST) + 1):
        try:
            found.append(visit.manager.plans.get(number))
        except LittoralError:
            continue
    if not found:
        raise Unknown("these plans are gone", remedy="submit the job again to plan it anew")
    return found


def _picture(plans: list[PlanRecord], picked: PlanRecord) -> str:
    times = [plan.plan["predicted"]["time_s"] for plan in plans]
    costs = [plan.plan["predicted"]["cost_usd"] for plan in plans]
    factor, unit = time_axis(max(times))
    x = Axis(low=0, high=1.08 * max(times), show=lambda v: f"{v / factor:.4g}", title=f"predicted time ({unit})")
    y = Axis(low=0, high=1.15 * max(costs) or 1.0, show=lambda v: f"{v:.2g}")
    dots = "".join(_dot(plan, plan is picked, x, y) for plan in plans)
    return plot(f"{len(plans)} plans, cost in USD against time", x, y, more=dots)


def _dot(plan: PlanRecord, picked: bool, x: Axis, y: Axis) -> str:
    told = plan.plan["predicted"]
    left, top = across(x, told["time_s"]), up(y, told["cost_usd"])
    kind = "dot picked" if picked else "dot"
    title = f"plan {plan.number}: {show_duration(told['time_s'])}, {told['cost_usd']:.3g} USD"
    return (
        f'<circle class="{kind}" cx="{left:.1f}" cy="{top:.1f}" r="{3 + 4 * plan.fairness:.1f}">'
        f"<title>{escape(title)}</title></circle>"
        f'<text class="tick" x="{left + 8:.1f}" y="{top - 6:.1f}">{plan.number}</text>'
    )


def _table(plans: list[PlanRecord], picked: PlanRecord) -> str:
    where = f"/plans/{plans[0].number}/to/{plans[-1].number}"
    heads = ["plan", Num("workers"), Num("time"), Num("cost"), Num("fairness")]
    return table("Plans on the front", heads, (_row(plan, plan is picked, where) for plan in plans))


def _row(plan: PlanRecord, picked: bool, where: str) -> list[str]:
    told = plan.plan["predicted"]
    pick = f"<b>Plan {plan.number} ✓</b>" if picked else link(f"{where}?plan={plan.number}", f"Plan {plan.number}")
    return [pick, str(len(plan.plan["workers"])), seconds(told["time_s"]), money(told["cost_usd"]),
            percent(plan.fairness, 0)]  # fmt: skip


VIEW = View(
    path="/plans/{first}/to/{last}", title="Plans", show=show, acts={"run": run}, under="plans",
    every_s=10.0,
)  # fmt: skip
