"""Keys that nobody asked for: refused with the nearest that is meant, in whatever record of a body they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec

from littoral.document import suggest
from littoral.errors import InputError, brief

EXPECTED = "see /openapi.json for what is expected"
_UNKNOWN = re.compile(r"unknown field `(.*?)`(?: - at `\$(.*)`)?$", re.DOTALL)


def unknown_key(kind: Any, path: Iterable[object], key: str) -> InputError:
    """A complaint about a key of the record at ``path`` in a record of ``kind``."""
    places = [str(place) for place in path]
    return InputError(
        f"unknown key {brief(key)}", remedy=suggest(key, _keys_at(kind, places)), key=".".join([*places, key])
    )


def complaint(error: msgspec.ValidationError, kind: Any, name: str, at: str = "") -> InputError:
    """What msgspec says of a record called ``name``, in our words; ``at`` is its place, unless that is its name."""
    found = _UNKNOWN.search(str(error))
    if found is None:
        return InputError(f"{name}: {error}", remedy=EXPECTED, key=at or name)
    told = unknown_key(kind, re.findall(r"\.(\w+)", found[2] or ""), found[1])
    return InputError(f"{name}: {told.found}", remedy=told.remedy, key=f"{at or name}.{told.key}")


def _keys_at(kind: Any, path: Iterable[str]) -> list[str]:
    record = _record(kind)
    for place in path:
        record = _record(get_type_hints(record).get(place, record))  # a place in a list leads to the same record
    return list(get_type_hints(record))


def _record(hint: Any) -> Any:
    """The record in a type such as ``list[Record] | None``."""
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, msgspec.Struct)):
        return hint
    return next((record for part in get_args(hint) if (record := _record(part)) is not None), None)
