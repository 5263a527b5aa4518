"""A lab that outlives the command which asked for it: brought up by a keeper in the background."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from littoral.continuum.continuum import Continuum
from littoral.continuum.write import continuum_document
from littoral.worlds.lab import register
from littoral.worlds.lab.parts import LabUnavailable, missing_parts


def up_and_leave(continuum: Continuum) -> str:
    """Bring up a lab that stays until it is taken down; its name on the first line, then what is where."""
    if missing := missing_parts():
        raise LabUnavailable(missing)
    document = msgspec.json.encode(continuum_document(continuum)).decode()
    command = [sys.executable, "-m", "littoral.worlds.lab.keeper"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdin is not None and starter.stdout is not None
        starter.stdin.write(document)
        starter.stdin.close()
        said = starter.stdout.readline().strip()
    if (record := register.read(said)) is None:
        raise LabUnavailable([said or "its keeper did not start"])
    rows = [f"  {name:20} {place.address:14} {place.netns}" for name, place in record.places.items()]
    return "\n".join([said, *rows, f"  {'(this namespace)':20} 10.77.{record.subnet}.1"])
