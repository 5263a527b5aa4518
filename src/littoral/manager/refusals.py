"""What the manager refuses, besides wrong input: things that are not there, and things that stand in the way."""

from __future__ import annotations

from littoral.document import suggest
from littoral.errors import InputError


class Unknown(InputError):
    """There is no such thing (404)."""


class Conflict(InputError):
    """Not in the present state of things (409)."""


class TooLarge(InputError):
    """More than the manager takes (413)."""


class NotAllowed(InputError):
    """The token is not for this (403)."""


def unknown(what: str, name: object, known: list[str] | None = None) -> Unknown:
    """A thing that is not there, with the nearest that is."""
    return Unknown(f"there is no {what} {str(name)[:100]!r}", remedy=suggest(str(name), known) if known else "")
