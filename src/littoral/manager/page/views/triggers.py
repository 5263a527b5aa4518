"""When models are updated: every trigger with the signal it watches, plotted; new ones, on and off."""

from __future__ import annotations

import json
from html import escape

from littoral.manager.page.pieces import ago, badge, button, empty, folded, heading, link, section
from littoral.manager.page.plots import Axis, Line, Rule, plot
from littoral.manager.page.view import Fields, Said, View, Visit, number_in
from littoral.manager.page.written import plain
from littoral.manager.trigger_kinds import KINDS
from littoral.manager.trigger_rows import Signal, TriggerRow
from littoral.units import show_duration

_POINTS = 400  # of a signal that are drawn


def show(visit: Visit) -> str:
    """One card each."""
    rows = visit.manager.life.watches.rows.all()
    models = [model.name for model in visit.manager.life.registry.all()]
    cards = "".join(_card(visit, row) for row in rows)
    if not rows:
        text = (
            "No triggers yet. Make one below." if visit.may_write and models else "No triggers yet; they need a model."
        )
        cards = f'<div class="card">{empty(text)}</div>'
    new = folded("new", "New trigger", _form(models)) if visit.may_write and models else ""
    return (
        heading("Triggers", note="A trigger fires when its level reaches 1.") + f'<div class="pair">{cards}</div>' + new
    )


def _card(visit: Visit, row: TriggerRow) -> str:
    signal = _signal(visit, row)
    settings = ", ".join(_setting(key, value) for key, value in row.settings.items() if value not in ({}, None))
    state = badge("on", "running") if row.enabled else badge("off", "queued")
    title = f"{row.number} · {row.kind} on {row.model}"
    about = f'<p class="note">{link(f"/models/{row.model}", row.model)} · {escape(settings)}</p>'
    return section(
        title, about, _plot(visit, row, signal), _buttons(visit, row), aside=state, id=f"trigger-{row.number}"
    )


def _setting(key: str, value: object) -> str:
    if key.endswith("_s") and isinstance(value, int | float):
        return f"{key[:-2].replace('_', ' ')} {show_duration(value)}"
    return f"{key.replace('_', ' ')} {json.dumps(value) if isinstance(value, dict) else value}"


def _signal(visit: Visit, row: TriggerRow) -> list[Signal]:
    """All that is kept, from its second half on if there is much."""
    found = visit.manager.life.watches.rows.signal(row.number, 0, 5000)
    step = max(1, len(found) // _POINTS)
    return [point for number, point in enumerate(found) if point.fired or number % step == 0 or point is found[-1]]


def _plot(visit: Visit, row: TriggerRow, signal: list[Signal]) -> str:
    if not signal:
        return empty("It has not been asked yet.")
    points = [(float(point.labelled), point.level) for point in signal]
    fired = [(float(point.labelled), min(point.level, 1.0)) for point in signal if point.fired]
    x = Axis(low=points[0][0], high=max(points[-1][0], points[0][0] + 1), show=lambda v: f"{v:,.0f}",
             title="labels received")  # fmt: skip
    y = Axis(low=0.0, high=max(1.2, min(3.0, max(level for _, level in points))), show=lambda v: f"{v:g}")
    last = signal[-1]
    label = f"Signal of trigger {row.number}: level {last.level:.2f}, fired {len(fired)} times"
    line = Line(name="level", points=points, stairs=True)
    told = f'<p class="note">{ago(last.at, visit.now)}: {escape(last.reason)}</p>'
    return plot(label, x, y, [line], [Rule(y=1.0, name="fires")], fired) + told


def _buttons(visit: Visit, row: TriggerRow) -> str:
    if not visit.may_write:
        return ""
    name = f"trigger {row.number}"
    way = "off" if row.enabled else "on"
    turn = button(f"Switch {way}", "turn", label=f"Switch {name} {way}", trigger=row.number)
    delete = button(
        "Delete", "delete", ask=f"Delete {name} and its signal?", label=f"Delete {name}", trigger=row.number
    )
    return f'<div class="actions">{turn}{delete}</div>'


def _form(models: list[str]) -> str:
    names = "".join(f"<option>{escape(name)}</option>" for name in models)
    kinds = "".join(f"<option>{kind}</option>" for kind in KINDS)
    return (
        '<form data-act="create" class="stack card"><div class="row">'
        f'<div><label for="model">Model</label><select id="model" name="model">{names}</select></div>'
        f'<div><label for="kind">Kind</label><select id="kind" name="kind">{kinds}</select></div></div>'
        '<label for="settings">Settings (YAML; empty: as usual)</label>'
        '<textarea id="settings" name="settings" rows="4" spellcheck="false" placeholder="samples: 500"></textarea>'
        '<div class="actions"><button class="main">Make it</button></div></form>'
    )


# -- acts -------------------------------------------------------------------------------------------------------------


def create(visit: Visit, fields: Fields) -> Said:
    """A new one."""
    manager, text = visit.manager, fields.get("settings", "").strip()
    settings = plain(text) if text else {}
    model, kind = fields.get("model", ""), fields.get("kind", "")
    with manager.database.write() as connection:
        made = manager.life.watches.rows.create(connection, model, kind, settings, visit.now)
        told = {"kind": kind, "model": model, "by": visit.token.name}
        manager.events.append(connection, "trigger.created", f"triggers/{made.number}", told)
    return Said(f"Trigger {made.number} watches {model}.")


def turn(visit: Visit, fields: Fields) -> Said:
    """On or off."""
    rows, number = visit.manager.life.watches.rows, number_in(fields, "trigger")
    with visit.manager.database.write() as connection:
        changed = rows.change(connection, number, enabled=not rows.get(number).enabled)
        visit.manager.events.append(connection, "trigger.changed", f"triggers/{number}", {"by": visit.token.name})
    return Said(f"Trigger {number} is {'on' if changed.enabled else 'off'}.")


def delete(visit: Visit, fields: Fields) -> Said:
    """With its signal."""
    number = number_in(fields, "trigger")
    with visit.manager.database.write() as connection:
        visit.manager.life.watches.rows.delete(connection, number)
        visit.manager.events.append(connection, "trigger.deleted", f"triggers/{number}", {"by": visit.token.name})
    return Said(f"Trigger {number} is gone.")


VIEW = View(
    path="/triggers", title="Triggers", show=show, acts={"create": create, "turn": turn, "delete": delete},
    under="triggers",
)  # fmt: skip
