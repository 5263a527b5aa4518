"""All models: what is served, how good it was when judged, and how it does now."""

from __future__ import annotations

from html import escape

from littoral.manager.model_records import Model
from littoral.manager.page.pieces import NONE, Num, ago, badge, code, empty, heading, link, percent, table
from littoral.manager.page.view import View, Visit

_HOW = """curl -X POST $URL/models -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"name": "digits", "task": "littoral.tasks.digits", "training": {"job": {"continuum": "bench"}}}'"""


def show(visit: Visit) -> str:
    """A row for each."""
    models = visit.manager.life.registry.all()
    if not models:
        body = empty("No models yet. Make one over the service, then send it samples:", code(_HOW))
    else:
        heads = ["model", "task", Num("served"), Num("held-out accuracy"), Num("answered right"), Num("samples"),
                 "last update"]  # fmt: skip
        body = table("Models", heads, (_row(visit, model) for model in models))
    return heading("Models") + f'<div class="card">{body}</div>'


def _row(visit: Visit, model: Model) -> list[str]:
    life = visit.manager.life
    served = None if model.current is None else life.registry.version(model.name, model.current)
    counts = life.stores.counts(model.store)
    updates = life.updates.of_model(model.name, 0, 1)
    last = f"{badge(updates[0].state)} {ago(updates[0].ended or updates[0].created, visit.now)}" if updates else NONE
    return [
        link(f"/models/{model.name}", model.name),
        escape(model.task),
        NONE if served is None else f"version {served.number}",
        percent(served.accuracy if served else None),
        percent(counts["accuracy"]),
        f"{counts['kept']:,}",
        last,
    ]


VIEW = View(path="/models", title="Models", show=show, under="models", every_s=2.0)
