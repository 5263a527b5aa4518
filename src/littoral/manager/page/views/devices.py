"""Every device: what it does, when it was heard, the strikes against it and a pardon; apps; and new continuums."""

from __future__ import annotations

import re
from html import escape

from littoral.errors import InputError
from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.page.documents import blaming, complaint, document_field
from littoral.manager.page.pieces import (
    NONE,
    Num,
    ago,
    badge,
    button,
    count,
    empty,
    folded,
    heading,
    link,
    percent,
    seconds,
    section,
    table,
)
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.page.written import plain
from littoral.manager.paging import LARGEST, Window
from littoral.manager.tokens import NAME
from littoral.strikes import LIMIT, PROBATION
from littoral.units import show_bytes

_RULES = (
    f"Each loss in a run with on_failure: deepedge is a strike; {LIMIT} exclude a device for {PROBATION} runs. "
    "On probation the next loss does. A run to a good end takes a strike away."
)
_EXAMPLE = """sites:
  - {name: hall, tier: edge}
devices:
  - {name: nano-1, count: 3, site: hall, kind: jetson-nano}
links:
  - {between: [hall, hall], bandwidth: 100 Mbit/s, latency: 1 ms}
"""


def show(visit: Visit) -> str:
    """A table for each continuum."""
    window = Window(limit=LARGEST)
    names = [found.name for found in visit.manager.continuums.listed(window).items]
    parts = [_continuum(visit, name) for name in names]
    new = folded("new", "Add or replace a continuum", _form(visit)) if visit.may_write else ""
    if not names:
        parts = [
            f'<div class="card">{empty("No continuum yet. Add one below, or submit a job that brings one.")}</div>'
        ]
    return heading("Devices") + "".join(parts) + new


def _continuum(visit: Visit, name: str) -> str:
    found = visit.manager.devices.listed(Window(limit=LARGEST), name)
    heads = ["device", "state", "heartbeat", "site", "kind", "apps", "strikes", ""]
    body = table(f"Devices of {name}", heads, (_row(visit, device) for device in found.items))
    apps = visit.manager.devices.apps(Window(limit=LARGEST), name).items
    more = '<p class="note">There are more than these.</p>' if found.next else ""
    rules = f'<p class="note">{_RULES}</p>' if any(device.strikes for device in found.items) else ""
    return section(f"Continuum {name}", body, more, rules, _apps(name, apps))


def _row(visit: Visit, device: DeviceRecord) -> list[str]:
    runs = " ".join(link(f"/runs/{run}", f"run\u00a0{run}") for run in device.runs)
    return [
        escape(device.name), f"{badge(device.state)} {runs}", _heard(visit, device),
        f"{escape(device.site)} ({device.tier})", f"{escape(device.kind)} {_soft(_size(device))}",
        escape(", ".join(device.apps)) or NONE, f"{device.strikes} of {LIMIT} {_soft(_standing(device))}",
        _pardon(device) if visit.may_write and device.strikes else "",
    ]  # fmt: skip


def _soft(text: str) -> str:
    return f'<span class="soft">{escape(text)}</span>' if text else ""


def _heard(visit: Visit, device: DeviceRecord) -> str:
    """How long ago, and how busy it was then; many devices send none."""
    busy = f' <span class="soft">{percent(device.load.cpu, 0)} busy</span>' if device.load else ""
    return ago(device.heartbeat, visit.now) + busy


def _size(device: DeviceRecord) -> str:
    price = f", {device.price_usd_per_h:.3g} USD/h" if device.price_usd_per_h else ""
    return show_bytes(device.memory_bytes) + price


def _standing(device: DeviceRecord) -> str:
    """What its strikes mean for the runs to come."""
    if device.returns_in_runs is not None:
        left = device.returns_in_runs
        return f"sits out {count(left, 'more run')}" if left else "back in the next run"
    return "on probation" if device.probation else ""


def _pardon(device: DeviceRecord) -> str:
    ask = f"Forgive {device.name} {count(device.strikes, 'strike')}?"
    return button("Pardon", "pardon", ask=ask, label=f"Pardon {device.name}", device=device.name)


def _apps(name: str, apps: list[AppRecord]) -> str:
    if not apps:
        return ""
    heads = ["app", "on", Num("every"), Num("deadline"), Num("missed now")]
    rows = (
        [escape(app.name), escape(", ".join(app.on)), seconds(app.every_s), seconds(app.deadline_s), str(app.missed)]
        for app in apps
    )
    return f"<h3>Apps</h3>{table(f'Apps of {name}', heads, rows)}"


def _form(visit: Visit) -> str:
    return (
        f'<form data-act="put" class="stack card">{complaint(visit)}<label for="name">Name</label>'
        f'<input id="name" name="name" required maxlength="100" pattern="{escape(NAME.strip("^$"))}">'
        f"{document_field(visit, 'YAML', _EXAMPLE, rows=12)}"
        '<div class="actions"><button class="main">Keep it</button></div></form>'
    )


# -- acts -------------------------------------------------------------------------------------------------------------


def pardon(visit: Visit, fields: Fields) -> Said:
    """Forgive a device its strikes."""
    name = fields.get("device", "")[:200]
    forgiven = visit.manager.devices.pardon(name)
    with visit.manager.database.write() as connection:
        told = {"forgiven": forgiven, "by": visit.token.name}
        visit.manager.events.append(connection, "device.pardoned", f"devices/{name}", told)
    return Said(f"{name} is forgiven {count(forgiven, 'strike')}.")


def put(visit: Visit, fields: Fields) -> Said:
    """Keep a continuum."""
    name = fields.get("name", "")
    if not re.fullmatch(NAME, name):
        raise InputError(f"{name[:100]!r} cannot be a name", remedy="use letters, digits, '.', '-', '_'")
    continuum = visit.manager.continuums.check(name, plain(fields.get("document", "")))
    with visit.manager.database.write() as connection:
        kept = visit.manager.continuums.put(connection, name, continuum)
    return Said(f"Continuum {name} is kept: {count(kept.devices, 'device')} at {count(kept.sites, 'site')}.")


VIEW = View(
    path="/devices", title="Devices", show=show, acts={"pardon": pardon, "put": blaming(put)}, under="devices"
)  # fmt: skip
