"""Where a manager is and how to be let in: ``client.json``, which ``littoral serve`` leaves in its data folder.

Only its owner can read the file. The token in it is the first start's; when it is no longer valid, none is written.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from littoral.errors import InputError
from littoral.rundir import write_whole

FILE = "client.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A manager's URL, a token for it, and the certificate to trust if it is not a public one."""

    url: str
    token: str = ""
    certificate: str = ""


def write_address(folder: Path, address: Address) -> None:
    """Leave an address where only its owner can read it."""
    write_private(folder / FILE, json.dumps(asdict(address), indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else can read, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o177)
    try:
        write_whole(path, text)
    finally:
        os.umask(before)


def read_address(folder: Path) -> Address | None:
    """The address in a data folder, if there is one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return Address(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        remedy = "delete it and start the manager again, or give --url and --token"
        raise InputError(f"not a manager's address: {error}", file=path, remedy=remedy) from error


def known_address(folder: Path) -> Address:
    """The address in a data folder that a manager has served."""
    found = read_address(folder)
    if found is None or not found.url:
        remedy = f"start one: littoral serve --data {folder}"
        raise InputError("no manager has served this folder", file=folder, remedy=remedy)
    return found
