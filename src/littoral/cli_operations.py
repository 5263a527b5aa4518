"""The verbs of whoever operates a manager: backup and restore, heartbeats of a device, and exports of runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from littoral.cli_options import HERE, AsJson, Data, Where, asking


def add_to(app: typer.Typer) -> None:
    """Give an application these verbs."""
    for verb in (backup, restore, asking(agent), export):
        app.command()(verb)


def backup(
    data: Data = HERE,
    out: Annotated[Path | None, typer.Option(help="The archive (default: littoral-DATE.tar.gz).")] = None,
    datasets: Annotated[bool, typer.Option("--datasets", help="Also what lies in 'datasets'.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pack a manager's data folder into one file, also while it is served."""
    from littoral.manager.backup import default_name, make_backup

    made = make_backup(data, out or Path(default_name()), datasets=datasets)
    told = f"{made.files} files, {made.size / 1e6:.1f} MB: {made.archive}"
    print(json.dumps(made.to_dict()) if as_json else told)


def restore(
    archive: Annotated[Path, typer.Argument(help="What 'littoral backup' wrote.", show_default=False)],
    data: Data = HERE,
    as_json: AsJson = False,
) -> None:
    """Unpack a backup into a new data folder, all of it or nothing."""
    from littoral.manager.restore import restore_backup

    restored = restore_backup(archive, data)
    for note in restored.notes:
        print(f"littoral: note: {note}", file=sys.stderr)
    told = f"{restored.files} files of {restored.made} are in {data}; serve it with: littoral serve --data {data}"
    print(json.dumps(restored.to_dict()) if as_json else told)


def agent(
    device: Annotated[str, typer.Option(help="This device's name in the manager's continuums.", show_default=False)],
    every: Annotated[str, typer.Option(help="Between two heartbeats.")] = "5 s",
    *,
    manager: Where,
) -> None:
    """Tell a manager every few seconds that this device is there and how busy it is, until Ctrl-C or SIGTERM."""
    from littoral import units
    from littoral.manager import logs
    from littoral.manager.agent import send_beats, until_asked

    tell = logs.configure("text", "warning")
    every_s = units.duration(every)
    with manager.connect() as client, until_asked() as ending:
        tell(f"{device} sends a heartbeat every {every_s:g} s")
        heard = send_beats(client.do, device, every_s, ending)
    tell(f"{heard} heartbeats were heard")


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    to: Annotated[str, typer.Option(help="tensorboard or mlflow.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to write into: a log folder, or mlruns.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Write a run in the format of TensorBoard (event files) or MLflow (its file store); needs neither."""
    from littoral.document import suggest
    from littoral.errors import InputError
    from littoral.reports.mlflow import write_mlflow
    from littoral.reports.tensorboard import write_tensorboard

    writers = {"tensorboard": write_tensorboard, "mlflow": write_mlflow}
    if to not in writers:
        raise InputError(f"unknown format {to!r}", remedy=suggest(to, list(writers)))
    written = writers[to](run, out)
    print(json.dumps({"run": str(run), "to": to, "written": str(written)}) if as_json else f"written: {written}")
