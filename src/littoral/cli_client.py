"""The verbs of whoever uses a manager: submit, status, logs, watch and stop."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from littoral.cli_manager import HERE, AsJson, Data
from littoral.errors import InputError

if TYPE_CHECKING:
    from littoral.client import Client

Url = Annotated[str | None, typer.Option(help="The manager's address (default: LITTORAL_URL, or the data folder's).")]
Token = Annotated[str | None, typer.Option(help="A token (default: LITTORAL_TOKEN, or the data folder's).")]
Trust = Annotated[Path | None, typer.Option("--certificate", help="To trust (default: LITTORAL_CERTIFICATE).")]
RunNumber = Annotated[int, typer.Argument(help="A run's number.", min=1, show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Give an application these verbs."""
    for verb in (submit, status, logs, watch, stop):
        app.command()(verb)


def submit(
    file: Annotated[Path, typer.Argument(help="A job's YAML file.", show_default=False)],
    world: Annotated[str, typer.Option(help="Where to run: simulated, processes or ray.")] = "processes",
    lab: Annotated[bool, typer.Option("--lab", help="Emulate the continuum on the manager's machine.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of everything random (default: the job's).", min=0)] = None,
    timing_only: Annotated[bool, typer.Option("--timing-only", help="No mathematics (simulated world).")] = False,
    url: Url = None,
    token: Token = None,
    certificate: Trust = None,
    data: Data = HERE,
    as_json: AsJson = False,
) -> None:
    """Send a job, its continuum and its profile to a manager, which keeps it and runs it in its turn."""
    from littoral.arguments import world_of
    from littoral.manager.jobs import RunOptions
    from littoral.manager.sending import send

    world_of(world, lab)
    options = RunOptions(world=world, lab=lab, seed=seed, timing_only=timing_only)  # type: ignore[arg-type]
    with connect(url, token, certificate, data) as client:
        sent = send(client, file, options)
    told = f"job {sent.job.number} is kept; see its run with: littoral watch {sent.run.number}"
    print(json.dumps(asdict(sent)) if as_json else told)


def status(
    number: Annotated[int | None, typer.Argument(help="A run's number (default: all runs).", min=1)] = None,
    url: Url = None,
    token: Token = None,
    certificate: Trust = None,
    data: Data = HERE,
    as_json: AsJson = False,
) -> None:
    """Show a run, or the newest ones."""
    from littoral.manager.telling import run_line, runs_table

    with connect(url, token, certificate, data) as client:
        found = client.runs(newest=True).items if number is None else [client.run(number)]
    if as_json:
        shown = [asdict(run) for run in found]
        print(json.dumps(shown[0] if number is not None else {"runs": shown}))
    else:
        print(runs_table(found) if number is None else run_line(found[0]))


def logs(
    number: RunNumber, url: Url = None, token: Token = None, certificate: Trust = None, data: Data = HERE,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print the end of what a run's process said."""
    with connect(url, token, certificate, data) as client:
        text = client.log(number)
    print(json.dumps({"run": number, "log": text}) if as_json else text, end="\n" if as_json else "")


def watch(
    number: RunNumber, url: Url = None, token: Token = None, certificate: Trust = None, data: Data = HERE,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Follow a run until it has ended; exit code 4 if it failed."""
    from littoral.manager.runs import RunState
    from littoral.manager.telling import run_line

    with connect(url, token, certificate, data) as client:
        for run in client.watch(number):
            print(run_line(run), file=sys.stderr)
    print(json.dumps(asdict(run)) if as_json else run_line(run))
    if run.state is RunState.FAILED:
        sys.exit(4)


def stop(
    number: RunNumber, url: Url = None, token: Token = None, certificate: Trust = None, data: Data = HERE,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Stop a run once it has written a checkpoint."""
    from littoral.manager.telling import run_line

    with connect(url, token, certificate, data) as client:
        run = client.stop(number)
    print(json.dumps(asdict(run)) if as_json else run_line(run))


def connect(url: str | None, token: str | None, certificate: Path | None, data: Path) -> Client:
    """Options first, then the environment, then the file that the manager left in its folder."""
    from littoral.client import Client
    from littoral.manager.address import Address, read_address

    kept = read_address(data) or Address(url="")
    found = url or os.environ.get("LITTORAL_URL") or kept.url
    if not found:
        remedy = "start one with: littoral serve, or name one with --url, LITTORAL_URL or --data"
        raise InputError(f"no manager is known: {data} has none", remedy=remedy)
    mine = found == kept.url  # its token is for nobody else
    secret = token or os.environ.get("LITTORAL_TOKEN") or (kept.token if mine else "")
    trusted = str(certificate or os.environ.get("LITTORAL_CERTIFICATE") or (kept.certificate if mine else ""))
    return Client(found, secret, certificate=trusted)
