"""Every device: what it is, what it does, the strikes against it and a pardon; apps; and new continuums."""

from __future__ import annotations

import re
from html import escape

from littoral.errors import InputError
from littoral.manager.devices import AppRecord, DeviceRecord
from littoral.manager.page.pieces import (
    NONE,
    Num,
    badge,
    button,
    empty,
    folded,
    heading,
    link,
    seconds,
    section,
    table,
)
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.page.written import plain
from littoral.manager.paging import LARGEST, Window
from littoral.manager.tokens import NAME
from littoral.units import show_bytes

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
    new = folded("new", "Add or replace a continuum", _form()) if visit.may_write else ""
    if not names:
        parts = [
            f'<div class="card">{empty("No continuum yet. Add one below, or submit a job that brings one.")}</div>'
        ]
    return heading("Devices") + "".join(parts) + new


def _continuum(visit: Visit, name: str) -> str:
    found = visit.manager.devices.listed(Window(limit=LARGEST), name)
    heads = ["device", "state", "site", "kind", Num("memory"), Num("price"), "apps", Num("strikes"), ""]
    body = table(f"Devices of {name}", heads, (_row(visit, device) for device in found.items))
    apps = visit.manager.devices.apps(Window(limit=LARGEST), name).items
    more = '<p class="note">There are more than these.</p>' if found.next else ""
    return section(f"Continuum {name}", body, more, _apps(name, apps))


def _row(visit: Visit, device: DeviceRecord) -> list[str]:
    runs = " ".join(link(f"/runs/{run}", f"run {run}") for run in device.runs)
    back = f' <span class="soft">back in {device.returns_in_runs} runs</span>' if device.returns_in_runs else ""
    pardon = ""
    if visit.may_write and device.strikes:
        ask = f"Forgive {device.name} its {device.strikes} strikes?"
        pardon = button("Pardon", "pardon", ask=ask, label=f"Pardon {device.name}", device=device.name)
    return [
        escape(device.name), f"{badge(device.state)} {runs}{back}", f"{escape(device.site)} ({device.tier})",
        escape(device.kind), escape(show_bytes(device.memory_bytes)),
        f"{device.price_usd_per_h:.3g}&nbsp;USD/h" if device.price_usd_per_h else NONE,
        escape(", ".join(device.apps)) or NONE, str(device.strikes), pardon,
    ]  # fmt: skip


def _apps(name: str, apps: list[AppRecord]) -> str:
    if not apps:
        return ""
    heads = ["app", "on", Num("every"), Num("deadline"), Num("missed now")]
    rows = (
        [escape(app.name), escape(", ".join(app.on)), seconds(app.every_s), seconds(app.deadline_s), str(app.missed)]
        for app in apps
    )
    return f"<h3>Apps</h3>{table(f'Apps of {name}', heads, rows)}"


def _form() -> str:
    return (
        '<form data-act="put" class="stack card"><label for="name">Name</label>'
        f'<input id="name" name="name" required maxlength="100" pattern="{escape(NAME.strip("^$"))}">'
        '<label for="document">YAML</label>'
        '<textarea id="document" name="document" rows="12" spellcheck="false" required '
        f'maxlength="300000">{escape(_EXAMPLE)}</textarea>'
        '<label for="file">or take it from a file</label>'
        '<input id="file" type="file" accept=".yaml,.yml,.json" data-into="document">'
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
    return Said(f"{name} is forgiven {forgiven} strikes.")


def put(visit: Visit, fields: Fields) -> Said:
    """Keep a continuum."""
    name = fields.get("name", "")
    if not re.fullmatch(NAME, name):
        raise InputError(f"{name[:100]!r} cannot be a name", remedy="use letters, digits, '.', '-', '_'")
    continuum = visit.manager.continuums.check(name, plain(fields.get("document", "")))
    with visit.manager.database.write() as connection:
        kept = visit.manager.continuums.put(connection, name, continuum)
    return Said(f"Continuum {name} is kept: {kept.devices} devices at {kept.sites} sites.")


VIEW = View(path="/devices", title="Devices", show=show, acts={"pardon": pardon, "put": put}, under="devices")
