"""Bearer tokens: who may do what. Only salted hashes are kept, so that a stolen database opens nothing.

``viewer`` reads everything but tokens. ``ingest`` delivers samples and heartbeats
and asks for predictions, and reads nothing else: it is what a camera is given.
``operator`` may do everything. A token is ``lit_<id>_<secret>``; the secret has 256 random bits, so that one round of
SHA-256 is as good as many.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from littoral.errors import InputError
from littoral.manager.database import Database
from littoral.manager.paging import Page, Window, page
from littoral.manager.refusals import Conflict, unknown

MIGRATION = (
    "tokens",
    """CREATE TABLE tokens (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, role TEXT NOT NULL, salt BLOB NOT NULL,
       hash BLOB NOT NULL, created REAL NOT NULL, expires REAL, revoked REAL) WITHOUT ROWID""",
)
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"  # of everything that users name
_TOKEN = re.compile(r"lit_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


class Role(StrEnum):
    """What a token is for."""

    VIEWER = "viewer"
    INGEST = "ingest"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret. Times are seconds since 1970; null: never."""

    id: str
    name: str
    role: Role
    created: float
    expires: float | None = None
    revoked: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token and its secret, which is told this once."""

    token: Token
    secret: str


class Tokens:
    """The tokens of one data folder."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database, self._now = database, now

    def create(self, connection: sqlite3.Connection, name: str, role: Role, lasts_s: float | None = None) -> NewToken:
        """A new token, for ``lasts_s`` seconds or for good."""
        if not re.fullmatch(NAME, name):
            raise InputError(
                f"{name[:100]!r} cannot be a name", remedy="use letters, digits, '.', '-', '_'", key="name"
            )
        if connection.execute("SELECT 1 FROM tokens WHERE name = ?", (name,)).fetchone():
            raise Conflict(f"there is a token {name!r}", remedy="choose another name")
        now, key, secret, salt = self._now(), secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
        token = Token(id=key, name=name, role=role, created=now, expires=None if lasts_s is None else now + lasts_s)
        row = (key, name, role, salt, _hash(salt, secret), now, token.expires, None)
        connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return NewToken(token=token, secret=f"lit_{key}_{secret}")

    def revoke(self, connection: sqlite3.Connection, name: str) -> Token:
        """From now on the token opens nothing; its name stays taken."""
        row = connection.execute("SELECT * FROM tokens WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise unknown("token", name)
        connection.execute("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE name = ?", (self._now(), name))
        return _token(connection.execute("SELECT * FROM tokens WHERE name = ?", (name,)).fetchone())

    def find(self, presented: str) -> Token | None:
        """Whose token was presented; None unless it is one that is valid now."""
        match = _TOKEN.fullmatch(presented)
        with self._database.read() as connection:
            row = connection.execute("SELECT * FROM tokens WHERE id = ?", (match[1] if match else "",)).fetchone()
        kept = row["hash"] if row else bytes(32)
        right = hmac.compare_digest(_hash(row["salt"] if row else b"", match[2] if match else ""), kept)
        if not right or row is None or not self._valid(row):
            return None
        return _token(row)

    def with_id(self, id: str) -> Token | None:
        """The token of that id, for who has shown its secret before; None unless it is valid now."""
        with self._database.read() as connection:
            row = connection.execute("SELECT * FROM tokens WHERE id = ?", (id,)).fetchone()
        return _token(row) if row is not None and self._valid(row) else None

    def listed(self, window: Window) -> Page[Token]:
        """All of them, by name, also expired and revoked ones."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM tokens WHERE name > ? ORDER BY name LIMIT ?", (window.after_name, window.limit + 1)
            ).fetchall()
        return page(rows, window, lambda row: row["name"], _token)

    def any(self) -> bool:
        """Whether there is a token that opens something."""
        with self._database.read() as connection:
            return any(self._valid(row) for row in connection.execute("SELECT * FROM tokens"))

    def _valid(self, row: sqlite3.Row) -> bool:
        return row["revoked"] is None and (row["expires"] is None or row["expires"] > self._now())


def _hash(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()


def _token(row: sqlite3.Row) -> Token:
    return Token(
        id=row["id"], name=row["name"], role=Role(row["role"]), created=row["created"], expires=row["expires"],
        revoked=row["revoked"],
    )  # fmt: skip
