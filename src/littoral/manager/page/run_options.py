"""How to run a job: the fields of a form that ask for it, and what they say."""

from __future__ import annotations

from typing import Any

from littoral.errors import InputError
from littoral.manager.jobs import RunOptions
from littoral.manager.page.view import Fields

_WORLDS = {"processes": "real, on this machine", "simulated": "virtual time", "ray": "a Ray cluster"}


def option_fields() -> str:
    """All there is to choose."""
    worlds = "".join(f'<option value="{world}">{world}: {what}</option>' for world, what in _WORLDS.items())
    return (
        '<div class="row"><div><label for="world">Where to run</label>'
        f'<select id="world" name="world">{worlds}</select></div>'
        '<div><label for="seed">Seed</label><input id="seed" name="seed" inputmode="numeric" pattern="[0-9]*" '
        'placeholder="the job\'s"></div></div>'
        f'<div class="row">{_choice("lab", "in the lab: emulate the continuum (processes, as root)")}'
        f"{_choice('timing_only', 'timing only: no gradients (simulated)')}</div>"
    )


def world_field() -> str:
    """The world alone, for where there is little room."""
    worlds = "".join(f"<option>{world}</option>" for world in _WORLDS)
    return f'<label class="unseen" for="world">Where to run</label><select id="world" name="world">{worlds}</select>'


def _choice(name: str, label: str) -> str:
    return f'<label class="choice"><input type="checkbox" id="{name}" name="{name}"> {label}</label>'


def options_of(fields: Fields) -> RunOptions:
    """What was chosen; refused as the service refuses it, with no key of the job to blame."""
    try:
        return RunOptions(
            world=_world(fields), seed=_seed(fields), lab="lab" in fields, timing_only="timing_only" in fields
        )
    except InputError as error:
        raise InputError(error.found, remedy=error.remedy) from error


def _world(fields: Fields) -> Any:
    world = fields.get("world", "processes")
    if world not in _WORLDS:
        raise InputError(f"unknown world {world[:20]!r}", remedy=f"choose one of {', '.join(_WORLDS)}")
    return world


def _seed(fields: Fields) -> int | None:
    seed = fields.get("seed", "").strip()
    if seed and not (seed.isascii() and seed.isdigit() and int(seed) < 2**32):
        raise InputError(f"the seed is {seed[:20]!r}", remedy="give a whole number below 4294967296, or leave it out")
    return int(seed) if seed else None
