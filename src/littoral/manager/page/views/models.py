"""All models: what is served, how good it was when judged, how it does now; and new ones."""

from __future__ import annotations

from html import escape

from littoral.manager.model_records import Model
from littoral.manager.page.documents import blaming, complaint, document_field
from littoral.manager.page.new_model import make_model
from littoral.manager.page.pieces import NONE, Num, ago, badge, empty, folded, heading, link, percent, table
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.page.written import plain


def show(visit: Visit) -> str:
    """A row for each, and a form for one more."""
    models = visit.manager.life.registry.all()
    body = _table(visit, models) if models else empty(_todo(visit))
    new = folded("new", "New model", _form(visit)) if visit.may_write else ""
    return heading("Models") + f'<div class="card">{body}</div>{new}'


def _todo(visit: Visit) -> str:
    return "No models yet. Make one below, then send it samples." if visit.may_write else "No models yet."


def _table(visit: Visit, models: list[Model]) -> str:
    heads = ["model", "task", Num("served"), Num("held-out accuracy"), Num("answered right"), Num("samples"),
             "last update"]  # fmt: skip
    return table("Models", heads, (_row(visit, model) for model in models))


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


def _form(visit: Visit) -> str:
    note = "As a model's file has it: name and task; if you like store, input, retention, gate and training."
    return (
        f'<form data-act="create" class="stack card">{complaint(visit)}<p class="note">{note}</p>'
        f"{document_field(visit, 'YAML', _example(visit), rows=10)}"
        '<div class="actions"><button class="main">Make it</button></div></form>'
    )


def _example(visit: Visit) -> str:
    continuums = visit.manager.continuums.all()
    training = f"training:\n  job: {{continuum: {continuums[0].name}, target: {{epochs: 5}}}}\n" if continuums else ""
    return f"name: digits\ntask: littoral.tasks.digits\ngate: {{least_samples: 50}}\n{training}"


def create(visit: Visit, fields: Fields) -> Said:
    """A model without a version; on to it."""
    model = make_model(visit.manager, plain(fields.get("document", "")), visit.token.name)
    return Said("", go=f"/models/{model.name}")


VIEW = View(
    path="/models", title="Models", show=show, acts={"create": blaming(create)}, under="models", every_s=2.0
)  # fmt: skip
