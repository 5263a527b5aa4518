"""The verbs of the manager: serve, its tokens, and submit, status, logs, watch and stop for whoever uses it."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from littoral.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from littoral.client import Client
    from littoral.manager.manager import Manager

Data = Annotated[Path, typer.Option(help="The manager's data folder.")]
Url = Annotated[str | None, typer.Option(help="The manager's address (default: LITTORAL_URL, or the data folder's).")]
Token = Annotated[str | None, typer.Option(help="A token (default: LITTORAL_TOKEN, or the data folder's).")]
Trust = Annotated[Path | None, typer.Option("--certificate", help="To trust (default: LITTORAL_CERTIFICATE).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
RunNumber = Annotated[int, typer.Argument(help="A run's number.", min=1, show_default=False)]
HERE = Path("littoral-data")

token_app = typer.Typer(help="Make, list and revoke the tokens of a manager's data folder.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Give an application the manager's verbs."""
    for verb in (serve, submit, status, logs, watch, stop):
        app.command()(verb)
    app.add_typer(token_app, name="token")


def serve(
    data: Data = HERE,
    host: Annotated[str, typer.Option(help="Beyond loopback a token must exist first.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8437,
    certificate: Annotated[Path | None, typer.Option(help="Of TLS, in PEM.", exists=True, dir_okay=False)] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's, in PEM.", exists=True, dir_okay=False)] = None,
    runs: Annotated[int, typer.Option(help="Runs at work at once; others wait in order.", min=1)] = 1,
    allow_task: Annotated[
        list[str] | None, typer.Option(help="A task, strategy or app of your own that jobs may name; may be repeated.")
    ] = None,
    body_limit: Annotated[str, typer.Option(help="The largest request.")] = "16 MiB",
    ray_address: Annotated[str, typer.Option(help="Of the Ray cluster that runs in the ray world join.")] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="Write the first token here instead of showing it.", dir_okay=False)
    ] = None,
    page: Annotated[bool, typer.Option(help="Also serve the page, where NiceGUI is installed.")] = True,
) -> None:
    """Serve a data folder over HTTP until Ctrl-C or SIGTERM; runs are checkpointed, and go on at the next start."""
    _need("fastapi", "uvicorn", "httpx")
    from littoral import units
    from littoral.manager.manager import Manager, ManagerOptions
    from littoral.manager.server import Listening, first_token
    from littoral.manager.server import serve as serve_manager

    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    listening = Listening(host=host, port=port, certificate=certificate, key=key)
    options = ManagerOptions(
        body_limit=int(units.size(body_limit)), allowed=tuple(allow_task or ()), runs=runs, ray_address=ray_address
    )
    manager = Manager(data, options)
    if not listening.beyond_loopback:
        _show_first(first_token(manager), token_file)
    elif certificate is None:
        _tell("littoral: note: without --certificate and --key, tokens cross the network readable")
    serve_manager(manager, listening, _tell, page=page and find_spec("nicegui") is not None)


def _show_first(secret: str | None, token_file: Path | None) -> None:
    from littoral.manager.address import write_private

    if secret is not None and token_file is not None:
        write_private(token_file, secret + "\n")
        _tell(f"the first token is in {token_file}")
    elif secret is not None:
        _tell(f"the first token, an operator's, shown this once: {secret}")


# -- tokens -----------------------------------------------------------------------------------------------------------


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="What to call it.", show_default=False)],
    role: Annotated[str, typer.Option(help="viewer, ingest or operator.")] = "viewer",
    lasts: Annotated[str | None, typer.Option(help="How long, such as '12 h' (default: for good).")] = None,
    data: Data = HERE,
) -> None:
    """Make a token and print it; it is shown this once."""
    from littoral import units
    from littoral.document import suggest
    from littoral.manager.tokens import Role

    if role not in list(Role):
        raise InputError(f"unknown role {role!r}", remedy=suggest(role, list(Role)))
    manager = _opened(data)
    with manager.database.write() as connection:
        made = manager.tokens.create(connection, name, Role(role), None if lasts is None else units.duration(lasts))
        manager.events.append(connection, "token.created", f"tokens/{name}", {"role": role, "by": "command line"})
    print(made.secret)


@token_app.command("list")
def token_list(data: Data = HERE, as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    from littoral import terminal
    from littoral.manager.paging import LARGEST, Window

    found = _opened(data).tokens.listed(Window(limit=LARGEST)).items
    rows = [[one.name, one.role, _date(one.created), _date(one.expires), _date(one.revoked)] for one in found]
    if as_json:
        print(json.dumps({"tokens": [asdict(one) for one in found]}))
    else:
        print(terminal.table(["name", "role", "created", "expires", "revoked"], rows))


@token_app.command("revoke")
def token_revoke(
    name: Annotated[str, typer.Argument(help="A token's name.", show_default=False)], data: Data = HERE
) -> None:
    """Let a token open nothing from now on."""
    manager = _opened(data)
    with manager.database.write() as connection:
        manager.tokens.revoke(connection, name)
        manager.events.append(connection, "token.revoked", f"tokens/{name}", {"by": "command line"})
    print(f"{name} is revoked", file=sys.stderr)


# -- for whoever uses a manager ---------------------------------------------------------------------------------------


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
    with _client(url, token, certificate, data) as client:
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

    with _client(url, token, certificate, data) as client:
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
    with _client(url, token, certificate, data) as client:
        text = client.log(number)
    print(json.dumps({"run": number, "log": text}) if as_json else text, end="\n" if as_json else "")


def watch(
    number: RunNumber, url: Url = None, token: Token = None, certificate: Trust = None, data: Data = HERE,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Follow a run until it has ended; exit code 4 if it failed."""
    from littoral.manager.runs import RunState
    from littoral.manager.telling import run_line

    with _client(url, token, certificate, data) as client:
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

    with _client(url, token, certificate, data) as client:
        run = client.stop(number)
    print(json.dumps(asdict(run)) if as_json else run_line(run))


def _client(url: str | None, token: str | None, certificate: Path | None, data: Path) -> Client:
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


def _opened(data: Path) -> Manager:
    _need("fastapi")
    from littoral.manager.manager import Manager

    return Manager(data)


def _need(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve", "the manager")


def _date(seconds: float | None) -> str:
    from datetime import datetime

    return "-" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
