"""The same request twice has one effect: what was answered is kept with the effect, in the same transaction.

A client sends an ``Idempotency-Key`` of its choice with a POST. When it has to repeat the request, for it does not know
whether the first was heard, it gets the first one's answer; so it does when the manager was killed in between. The same
key with another request is refused. Keys are each token's own and are kept for a day.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from littoral.manager.database import Database
from littoral.manager.refusals import Conflict

MIGRATION = (
    "idempotency",
    """CREATE TABLE answers (owner TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, answer TEXT NOT NULL,
       created REAL NOT NULL, PRIMARY KEY (owner, key)) WITHOUT ROWID;
       CREATE INDEX answers_created ON answers (created)""",
)
KEPT_S = 24 * 3600.0
Act = Callable[[sqlite3.Connection], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: whose, with which key if any, and a digest of method, path and body."""

    owner: str
    key: str | None
    digest: str


class Idempotency:
    """What was answered to which key."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database, self._now = database, now

    def once(self, asked: Asked, act: Act) -> dict[str, Any]:
        """Do ``act`` in one transaction and keep its answer, or give the answer that was kept."""
        with self._database.write() as connection:
            known = self._known(connection, asked)
            if known is not None:
                return known
            answer = act(connection)
            if asked.key is not None:
                row = (asked.owner, asked.key, asked.digest, json.dumps(answer), self._now())
                connection.execute("DELETE FROM answers WHERE created < ?", (self._now() - KEPT_S,))
                connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)
            return answer

    def known(self, asked: Asked) -> dict[str, Any] | None:
        """What was answered, for acts that take long to prepare."""
        with self._database.read() as connection:
            return self._known(connection, asked)

    def _known(self, connection: sqlite3.Connection, asked: Asked) -> dict[str, Any] | None:
        if asked.key is None:
            return None
        row = connection.execute(
            "SELECT digest, answer FROM answers WHERE owner = ? AND key = ? AND created >= ?",
            (asked.owner, asked.key, self._now() - KEPT_S),
        ).fetchone()
        if row is None:
            return None
        if row["digest"] != asked.digest:
            raise Conflict("this Idempotency-Key came with another request", remedy="use a new key for each request")
        answer: dict[str, Any] = json.loads(row["answer"])
        return answer
