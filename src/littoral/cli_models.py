"""The verbs of models that a manager keeps fresh: model, trigger, ingest and predict."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from littoral.cli_options import AsJson, Where, asking
from littoral.errors import InputError

if TYPE_CHECKING:
    from littoral.client import Client
    from littoral.manager.updates import Update

Name = Annotated[str, typer.Argument(help="A model's name.", show_default=False)]
Samples = Annotated[Path, typer.Argument(help="NumPy's .npz, or .npy of inputs alone.", show_default=False)]

model_app = typer.Typer(help="Models that a manager serves and keeps fresh.", no_args_is_help=True)
trigger_app = typer.Typer(help="When a manager updates its models.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Give an application these verbs."""
    app.command()(asking(ingest))
    app.command()(asking(predict))
    app.add_typer(model_app, name="model")
    app.add_typer(trigger_app, name="trigger")


# -- models -----------------------------------------------------------------------------------------------------------


@model_app.command("create")
@asking
def model_create(
    file: Annotated[Path, typer.Argument(help="A model's YAML file.", show_default=False)],
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Register a model, with the continuum that its updates run on if the file names another file."""
    from littoral.manager.model_files import send_model

    with manager.connect() as client:
        made = send_model(client, file)
    _show(made, f"model {made.name} is kept; send it samples with: littoral ingest {made.store} FILE", as_json)


@model_app.command("list")
@asking
def model_list(*, manager: Where, as_json: AsJson = False) -> None:
    """List the models and the versions they serve."""
    from littoral.terminal import table

    with manager.connect() as client:
        found = client.models().items
    rows = [[each.name, each.task, each.store, "-" if each.current is None else str(each.current)] for each in found]
    _show({"models": [_plain(each) for each in found]}, table(["model", "task", "store", "serves"], rows), as_json)


@model_app.command("show")
@asking
def model_show(name: Name, *, manager: Where, as_json: AsJson = False) -> None:
    """Show a model's versions: which is served, how they did on recent held-out samples, and why."""
    from littoral.terminal import table

    with manager.connect() as client:
        model, found = client.model(name), client.versions(name).items
    rows = [
        [str(each.number), each.state, "-" if each.accuracy is None else f"{each.accuracy:.4f}", each.reason]
        for each in found
    ]
    told = {"model": _plain(model), "versions": [asdict(each) for each in found]}
    _show(told, table(["version", "state", "accuracy", "reason"], rows), as_json)


@model_app.command("update")
@asking
def model_update(
    name: Name,
    why: Annotated[str, typer.Option(help="For the records.")] = "asked for by hand",
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end; exit code 4 if it failed.")] = False,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Update a model now, whatever its triggers say."""
    with manager.connect() as client:
        update = client.update_model(name, why)
        if watch:
            update = _follow(client, update)
    _finish(update, as_json)


@model_app.command("watch")
@asking
def model_watch(name: Name, *, manager: Where, as_json: AsJson = False) -> None:
    """Follow the newest update of a model until it has ended; exit code 4 if it failed."""
    with manager.connect() as client:
        newest = client.updates(name, limit=1).items
        if not newest:
            raise InputError(f"model {name!r} was never updated", remedy=f"ask for it: littoral model update {name}")
        update = _follow(client, newest[0])
    _finish(update, as_json)


@model_app.command("promote")
@asking
def model_promote(
    name: Name,
    version: Annotated[int, typer.Argument(help="A version's number.", min=1, show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Whatever the gate says.")] = False,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Serve a version if the gate lets it pass on recent samples."""
    with manager.connect() as client:
        served = client.promote(name, version, force=force)
    _show(served, f"model {name} serves version {served.number}: {served.reason}", as_json)


@model_app.command("rollback")
@asking
def model_rollback(name: Name, *, manager: Where, as_json: AsJson = False) -> None:
    """Serve the version that was served before."""
    with manager.connect() as client:
        served = client.rollback(name)
    _show(served, f"model {name} serves version {served.number}: {served.reason}", as_json)


# -- samples ----------------------------------------------------------------------------------------------------------


def ingest(
    store: Annotated[str, typer.Argument(help="A store's name: its model's, if none was given.", show_default=False)],
    file: Samples,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Send samples to a store: inputs, and as far as known actual, predicted, ids, versions and times."""
    from littoral.manager.model_files import AT_ONCE, part, read_samples

    inputs, known = read_samples(file)
    with manager.connect() as client:
        sent = [
            client.ingest(store, inputs[start : start + AT_ONCE], **part(known, start, start + AT_ONCE))
            for start in range(0, len(inputs), AT_ONCE)
        ]
    counts = {"accepted": sum(each.accepted for each in sent), "repeated": sum(each.repeated for each in sent)}
    _show(counts, f"{counts['accepted']} samples are kept, {counts['repeated']} were there already", as_json)


def predict(name: Name, file: Samples, *, manager: Where, as_json: AsJson = False) -> None:
    """Ask a model about samples; where their truth is known, say how often it is right."""
    from littoral.manager.model_files import AT_ONCE, read_samples

    inputs, known = read_samples(file)
    with manager.connect() as client:
        told = [client.predict(name, inputs[start : start + AT_ONCE]) for start in range(0, len(inputs), AT_ONCE)]
    labels = [label for each in told for label in each.labels]
    answer: dict[str, Any] = {"model": name, "versions": sorted({each.version for each in told}), "labels": labels}
    line = f"version {', '.join(map(str, answer['versions']))}: {', '.join(map(str, labels[:20]))}"
    line += " ..." if len(labels) > 20 else ""
    if len(known.actual):
        right = sum(label == actual for label, actual in zip(labels, known.actual, strict=True))
        answer["accuracy"] = right / len(labels)
        line += f"\n{right} of {len(labels)} right"
    _show(answer, line, as_json)


# -- triggers ---------------------------------------------------------------------------------------------------------


@trigger_app.command("create")
@asking
def trigger_create(
    name: Name,
    kind: Annotated[
        str, typer.Argument(help="count, schedule, accuracy-below, drift, expected-gain or manual.", show_default=False)
    ],
    settings: Annotated[list[str] | None, typer.Argument(help="key=value, such as samples=500.")] = None,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Have a model updated by itself."""
    given = dict(_pair(each) for each in settings or [])
    with manager.connect() as client:
        made = client.create_trigger(name, kind, **given)
    _show(made, f"trigger {made.number} watches model {name}", as_json)


@trigger_app.command("list")
@asking
def trigger_list(
    name: Annotated[str | None, typer.Argument(help="A model's name (default: of all).")] = None,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """List triggers and their settings."""
    from littoral.terminal import table

    with manager.connect() as client:
        found = client.triggers(name).items
    rows = [
        [str(each.number), each.model, each.kind, "on" if each.enabled else "off",
         " ".join(f"{key}={value}" for key, value in each.settings.items())]
        for each in found
    ]  # fmt: skip
    told = {"triggers": [asdict(each) for each in found]}
    _show(told, table(["trigger", "model", "kind", "is", "settings"], rows), as_json)


@trigger_app.command("delete")
@asking
def trigger_delete(
    number: Annotated[int, typer.Argument(help="A trigger's number.", min=1, show_default=False)], *, manager: Where
) -> None:
    """Delete a trigger."""
    with manager.connect() as client:
        client.delete_trigger(number)
    print(f"trigger {number} is deleted", file=sys.stderr)


def _pair(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"no setting: {text!r}", remedy="write key=value")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError(f"setting {key!r} has no readable value", remedy="write it as YAML would") from error


def _follow(client: Client, update: Update) -> Update:
    for found in client.watch_update(update.number):
        update = found
        if update.ended is None:
            print(_line(update), file=sys.stderr, flush=True)
    return update


def _finish(update: Update, as_json: bool) -> None:
    _show(update, _line(update), as_json)
    if update.state in ("failed", "given up"):
        sys.exit(4)


def _line(update: Update) -> str:
    parts = [f"update {update.number} of model {update.model}: {update.state}"]
    parts += [f"run {update.run}"] if update.run and update.ended is None else []
    parts += [f"version {update.version}"] if update.version else []
    return ", ".join([*parts, update.reason] if update.reason else parts)


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _show(value: Any, line: str, as_json: bool) -> None:
    print(json.dumps(_plain(value)) if as_json else line)
