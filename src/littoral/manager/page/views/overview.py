"""The overview: the continuum as it is now, who trains, what is under way and what happened last."""

from __future__ import annotations

from littoral.manager.page.graph import draw
from littoral.manager.page.loads import loads_of
from littoral.manager.page.pieces import NONE, code, empty, heading, link, percent, section, tiles
from littoral.manager.page.view import View, Visit
from littoral.manager.page.views.events import events_list
from littoral.manager.page.views.runs import listed, runs_table
from littoral.manager.paging import LARGEST, Window
from littoral.manager.runs import RunState

_SIGNS = (
    '<ul class="signs"><li class="working">working</li><li class="idle">idle</li><li class="done">done</li>'
    '<li class="lost">lost</li><li class="excluded">excluded</li><li class="store">data</li></ul>'
)


def show(visit: Visit) -> str:
    """Everything at a glance."""
    newest = section("Newest runs", runs_table(visit, listed(visit, 5)), aside=link("/runs", "all runs"))
    happened = section("What happened", events_list(visit, 8, brief=True), aside=link("/events", "all events"))
    return heading("Overview") + _figures(visit) + newest + _continuums(visit) + happened


def _figures(visit: Visit) -> str:
    manager = visit.manager
    running = manager.runs.listed(Window(limit=LARGEST), RunState.RUNNING).items
    queued = manager.runs.listed(Window(limit=LARGEST), RunState.QUEUED).items
    devices = manager.devices.listed(Window(limit=LARGEST)).items
    busy = sum(device.state == "working" for device in devices)
    gone = sum(device.state in ("lost", "excluded") for device in devices)
    models = manager.life.registry.all()
    updates = manager.life.updates.unfinished()
    return tiles(
        ("Runs at work", str(len(running)), f"{len(queued)} waiting"),
        ("Devices working", f"{busy} of {len(devices)}", f"{gone} lost or excluded" if gone else "none lost"),
        ("Models", str(len(models)), f"{len(updates)} being updated"),
        ("Served accuracy", _accuracy(visit), "the worst of all models, when judged"),
    )


def _accuracy(visit: Visit) -> str:
    registry = visit.manager.life.registry
    served = [registry.version(model.name, model.current) for model in registry.all() if model.current is not None]
    known = [version.accuracy for version in served if version.accuracy is not None]
    return percent(min(known)) if known else NONE


def _continuums(visit: Visit) -> str:
    manager = visit.manager
    found = manager.continuums.all()
    if not found:
        todo = code("littoral submit examples/edge-cluster/job.yaml")
        return section("Continuum", empty("No continuum is known yet. A job brings its own:", todo))
    return "".join(
        section(
            f"Continuum {continuum.name}",
            draw(continuum, manager.devices.listed(Window(limit=LARGEST), continuum.name).items,
                 loads_of(manager, continuum)),
            _SIGNS,
            aside=link("/devices", "devices"),
        )
        for continuum in found
    )  # fmt: skip


VIEW = View(path="/", title="Overview", show=show)
