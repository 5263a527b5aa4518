"""One model: its versions with held-out accuracy, promote and roll back, its updates, and one more if asked."""

from __future__ import annotations

from html import escape

from littoral.manager.model_records import Model, Version
from littoral.manager.page.model_rules import model_rules
from littoral.manager.page.pieces import (
    NONE,
    Num,
    ago,
    badge,
    button,
    empty,
    heading,
    link,
    percent,
    seconds,
    section,
    table,
    tiles,
)
from littoral.manager.page.plots import Axis, Line, plot
from littoral.manager.page.view import Fields, Said, View, Visit, number_in
from littoral.manager.updates import Update


def show(visit: Visit) -> str:
    """All about it."""
    model = visit.manager.life.registry.get(visit.place["name"])
    versions = visit.manager.life.registry.versions(model.name)
    note = f"{escape(model.task)} · fed by store {escape(model.store)} · {link('/triggers', 'triggers')}"
    top = heading(f"Model {model.name}", *_buttons(visit, model, versions), note=note)
    return top + _figures(visit, model) + _versions(visit, model, versions) + _updates(visit, model)


def _buttons(visit: Visit, model: Model, versions: list[Version]) -> list[str]:
    if not visit.may_write:
        return []
    found = [button("Update now", "update")] if model.training.job else []
    if model.current is not None and len(versions) > 1:
        question = f"Serve the version that was served before version {model.current}?"
        found.append(button("Roll back", "rollback", ask=question, kind="main"))
    return found


def _figures(visit: Visit, model: Model) -> str:
    counts = visit.manager.life.stores.counts(model.store)
    served = None if model.current is None else visit.manager.life.registry.version(model.name, model.current)
    return tiles(
        ("Served", NONE if served is None else f"version {served.number}", served.reason if served else "nothing yet"),
        ("Held-out accuracy", percent(served.accuracy if served else None), "of the served version, when judged"),
        ("Answered right", percent(counts["accuracy"]), "of the samples in its store"),
        ("Samples", f"{counts['kept']:,}", f"{counts['labelled']:,} with labels, {counts['held_out']:,} held out"),
    )


# -- versions ---------------------------------------------------------------------------------------------------------


def _versions(visit: Visit, model: Model, versions: list[Version]) -> str:
    if not versions:
        todo = (
            "samples with labels, then update it" if model.training.job else f"weights to /models/{model.name}/versions"
        )
        return section("Versions", empty(f"No version yet. Send {todo}."), model_rules(model))
    heads = [Num("version"), "state", Num("held-out accuracy"), "why", "run", "made", ""]
    rows = (_row(visit, version) for version in versions[::-1])
    beside = f'<div class="pair">{_curve(versions)}{model_rules(model)}</div>'
    return section("Versions", beside, table("Versions", heads, rows))


def _row(visit: Visit, version: Version) -> list[str]:
    judged = f' <span class="soft">on {version.judged_on}</span>' if version.judged_on else ""
    run = link(f"/runs/{version.run}", version.run) if version.run and version.run.isdigit() else NONE
    return [
        str(version.number), badge(version.state), percent(version.accuracy, 2) + judged, escape(version.reason),
        run, ago(version.created, visit.now), _promotions(version) if visit.may_write else "",
    ]  # fmt: skip


def _promotions(version: Version) -> str:
    if version.state == "current":
        return ""
    name = f"version {version.number}"
    ask = f"Serve {name} if it passes the gate on recent data?"
    force = f"Serve {name} whatever the gate says?"
    gated = button("Promote", "promote", ask=ask, label=f"Promote {name}", version=version.number)
    forced = button("Force", "force", ask=force, label=f"Promote {name} without the gate", version=version.number)
    return f'<span class="actions">{gated}{forced}</span>'


def _curve(versions: list[Version]) -> str:
    points = [(float(v.number), v.accuracy) for v in versions if v.accuracy is not None]
    if len(points) < 2:
        return ""
    low = min(accuracy for _, accuracy in points)
    x = Axis(low=points[0][0] - 0.3, high=points[-1][0] + 0.3, show=_whole, title="version")
    y = Axis(low=0.0 if low < 0.5 else 0.5, high=1.0, show=lambda value: f"{100 * value:.0f} %")
    served = [(float(v.number), v.accuracy) for v in versions if v.state == "current" and v.accuracy is not None]
    label = f"Held-out accuracy of {len(points)} versions"
    figure = plot(label, x, y, [Line(name="accuracy", points=points, dots=True)], marks=served)
    return f'<div>{figure}<p class="note">Each was judged on what was recent then; ▼ is served.</p></div>'


def _whole(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else ""


# -- updates ----------------------------------------------------------------------------------------------------------


def _updates(visit: Visit, model: Model) -> str:
    updates = visit.manager.life.updates.of_model(model.name, 0, 20)
    if not updates:
        return section("Updates", empty("No update yet. A trigger asks for one, or you do."))
    heads = [Num("update"), "state", "why", "how it stands", "run", Num("training"), "asked", ""]
    return section("Updates", table("Updates", heads, (_update(visit, update) for update in updates)))


def _update(visit: Visit, update: Update) -> list[str]:
    run = link(f"/runs/{update.run}", update.run) if update.run and update.run.isdigit() else NONE
    give_up = ""
    if visit.may_write and update.ended is None:
        ask = f"End update {update.number} without a result?"
        give_up = button("Give up", "give-up", ask=ask, update=update.number)
    return [
        str(update.number), badge(update.state), escape(update.why), escape(update.reason), run,
        seconds(update.time_s), ago(update.created, visit.now), give_up,
    ]  # fmt: skip


# -- acts -------------------------------------------------------------------------------------------------------------


def update(visit: Visit, fields: Fields) -> Said:
    """Whatever the triggers say."""
    name = visit.place["name"]
    with visit.manager.database.write() as connection:
        asked = visit.manager.life.updates.request(connection, name, f"asked for by {visit.token.name}", visit.now)
    return Said(f"Update {asked.number} is asked for.")


def rollback(visit: Visit, fields: Fields) -> Said:
    """Serve what was served before."""
    life, name = visit.manager.life, visit.place["name"]
    with visit.manager.database.write() as connection:
        version = life.rollback(connection, name)
    life.serving.refresh(name)
    return Said(f"Version {version.number} is served again.")


def promote(visit: Visit, fields: Fields) -> Said:
    """If it passes the gate."""
    return _promote(visit, fields, force=False)


def force(visit: Visit, fields: Fields) -> Said:
    """Without the gate."""
    return _promote(visit, fields, force=True)


def _promote(visit: Visit, fields: Fields, *, force: bool) -> Said:
    life, name = visit.manager.life, visit.place["name"]
    number = number_in(fields, "version")
    judged = None if force else life.judge(name, number)
    with visit.manager.database.write() as connection:
        version = life.promote(connection, name, number, judged)
    if version.state != "current":
        return Said(f"Version {number} did not pass the gate: {version.reason}.", bad=True)
    life.serving.refresh(name)
    return Said(f"Version {number} is served now.")


def give_up(visit: Visit, fields: Fields) -> Said:
    """Stop its run, too."""
    life, number = visit.manager.life, number_in(fields, "update")
    with visit.manager.database.write() as connection:
        update = life.updates.give_up(connection, number, visit.now, f"given up by {visit.token.name}")
    life.stop_run(update)
    return Said(f"Update {number} is given up.")


VIEW = View(
    path="/models/{name}", title="Model", show=show, under="models",
    acts={"update": update, "rollback": rollback, "promote": promote, "force": force, "give-up": give_up},
)  # fmt: skip
