"""What a backup is: a gzipped tar of plain files, the last of which lists all others with size and hash.

Names lead to places inside a data folder and nowhere else.
"""

from __future__ import annotations

import re

import msgspec

MANIFEST = "manifest.json"
FORMAT = 1
_PART = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")
_TOPS = ("weights", "runs", "updates", "datasets")
_DATABASE = "littoral.db"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its bytes and their SHA-256."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All files of an archive. ``folder`` is where the data was."""

    format: int
    littoral: str
    made: str
    folder: str
    files: dict[str, Entry]


def is_safe(name: str) -> bool:
    """Whether a name of an archive may be written below a new data folder.

    >>> [is_safe(name) for name in ("littoral.db", "runs/1/plan.json", "runs/../../x", "/etc/x", "client.json")]
    [True, True, False, False, False]
    """
    if name == _DATABASE:
        return True
    parts = name.split("/")
    plain = all(_PART.fullmatch(part) and part not in (".", "..") for part in parts)
    return plain and len(parts) > 1 and parts[0] in _TOPS
