"""Options that several verbs share, and how a verb that asks a manager comes to its client."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from littoral.errors import InputError

if TYPE_CHECKING:
    from littoral.client import Client

JobFile = Annotated[Path, typer.Argument(help="A job's YAML file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
Data = Annotated[Path, typer.Option(help="The manager's data folder.")]
HERE = Path("littoral-data")

Url = Annotated[str | None, typer.Option(help="The manager's address (default: LITTORAL_URL, or the data folder's).")]
Token = Annotated[str | None, typer.Option(help="A token (default: LITTORAL_TOKEN, or the data folder's).")]
Trust = Annotated[Path | None, typer.Option("--certificate", help="To trust (default: LITTORAL_CERTIFICATE).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The manager that is meant; each field is an option of the verbs that ask it."""

    url: Url = None
    token: Token = None
    certificate: Trust = None
    data: Data = HERE

    def connect(self) -> Client:
        """Options first, then the environment, then the file that the manager left in its folder."""
        from littoral.client import Client
        from littoral.manager.address import Address, read_address

        kept = read_address(self.data) or Address(url="")
        found = self.url or os.environ.get("LITTORAL_URL") or kept.url
        if not found:
            remedy = "start one with: littoral serve, or name one with --url, LITTORAL_URL or --data"
            raise InputError(f"no manager is known: {self.data} has none", remedy=remedy)
        mine = found == kept.url  # its token is for nobody else
        secret = self.token or os.environ.get("LITTORAL_TOKEN") or (kept.token if mine else "")
        trusted = self.certificate or os.environ.get("LITTORAL_CERTIFICATE") or (kept.certificate if mine else "")
        return Client(found, secret, certificate=str(trusted))


def asking(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb with the options of :class:`Where` in the place of its parameter ``manager``, which they make up."""
    options = list(signature(Where, eval_str=True).parameters.values())
    shown: list[Parameter] = []
    for parameter in signature(verb, eval_str=True).parameters.values():
        shown += options if parameter.name == "manager" else [parameter]

    @wraps(verb)
    def command(**given: Any) -> None:
        manager = Where(**{field.name: given.pop(field.name) for field in fields(Where)})
        verb(**given, manager=manager)

    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__signature__ = signature(verb).replace(parameters=shown)  # type: ignore[attr-defined]
    return command
