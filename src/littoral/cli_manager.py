"""The verbs of whoever runs a manager: serve, and its tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from littoral.cli_options import HERE, AsJson, Data
from littoral.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from littoral.manager.manager import Manager

token_app = typer.Typer(help="Make, list and revoke the tokens of a manager's data folder.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Give an application these verbs."""
    app.command()(serve)
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
    lost_after: Annotated[
        str, typer.Option(help="Of a device that sends heartbeats: silence until it is lost.")
    ] = "20 s",
    keep_runs: Annotated[
        int, typer.Option(help="Folders of ended runs that are kept, the newest; 0: all.", min=0)
    ] = 200,
    keep_runs_for: Annotated[
        str | None, typer.Option(help="And for how long, such as '90 d' (default: for good).")
    ] = None,
    least_free: Annotated[str, typer.Option(help="Disk space below which /health fails.")] = "256 MiB",
    log: Annotated[str, typer.Option(help="text, or json: one object per line.")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    token_file: Annotated[
        Path | None, typer.Option(help="Write the first token here instead of showing it.", dir_okay=False)
    ] = None,
    page: Annotated[bool, typer.Option(help="Also serve the page, where NiceGUI is installed.")] = True,
) -> None:
    """Serve a data folder over HTTP until Ctrl-C or SIGTERM; runs are checkpointed, and go on at the next start."""
    _need("fastapi", "uvicorn", "httpx", "prometheus_client")
    from littoral import units
    from littoral.manager import logs
    from littoral.manager.address import FILE
    from littoral.manager.manager import Manager, ManagerOptions
    from littoral.manager.run_folders import Keep
    from littoral.manager.server import Listening, first_token
    from littoral.manager.server import serve as serve_manager

    tell = logs.configure(log, log_level)
    listening = Listening(host=host, port=port, certificate=certificate, key=key)
    options = ManagerOptions(
        body_limit=int(units.size(body_limit)), allowed=tuple(allow_task or ()), runs=runs, ray_address=ray_address,
        lost_after_s=units.duration(lost_after), least_free_bytes=int(units.size(least_free)),
        keep=Keep(most=keep_runs or None, seconds=None if keep_runs_for is None else units.duration(keep_runs_for)),
    )  # fmt: skip
    manager = Manager(data, options)
    if not listening.beyond_loopback:
        _show_first(first_token(manager), token_file or (data / FILE if log == "json" else None), tell)
    elif certificate is None:
        tell("littoral: note: without --certificate and --key, tokens cross the network readable")
    serve_manager(manager, listening, tell, page=page and find_spec("nicegui") is not None)


def _show_first(secret: str | None, file: Path | None, tell: Callable[[str], None]) -> None:
    """In a file, if there is one; ``client.json`` has it anyway."""
    from littoral.manager.address import FILE, write_private

    if secret is not None and file is not None:
        if file.name != FILE:
            write_private(file, secret + "\n")
        tell(f"the first token, an operator's, is in {file}")
    elif secret is not None:
        tell(f"the first token, an operator's, shown this once: {secret}")


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
