"""The manager's memory: one SQLite file in write-ahead mode, safe against being killed at any moment.

A write is on the disk when its block ends. Tables come from named migrations, each applied once, in the order given; a
file that knows migrations of a newer release is refused.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from littoral.errors import InputError

FILE = "littoral.db"
_PATIENCE_S = 30.0  # for another writer


class Database:
    """Connections to one file: each thread has its own, and writers take turns."""

    def __init__(self, folder: Path, migrations: Sequence[tuple[str, str]]) -> None:
        """``migrations`` are names and SQL statements."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._turn = threading.Lock()
        self._migrate(migrations)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One unchanging view of everything."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; on the disk when the block ends."""
        with self._turn, self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Of all threads; none may be inside a block."""
        with self._turn:
            for connection in self._open:
                connection.close()
            self._open.clear()
            self._local = threading.local()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        connection.execute(begin)
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is None:
            known = sqlite3.connect(self.path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
            known.row_factory = sqlite3.Row
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                known.execute(f"PRAGMA {pragma}")
            self._local.connection = known
            self._open.append(known)
        return known

    def _migrate(self, migrations: Sequence[tuple[str, str]]) -> None:
        with self.write() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY) WITHOUT ROWID")
            applied = {row["name"] for row in connection.execute("SELECT name FROM migrations")}
            newer = applied - {name for name, _ in migrations}
            if newer:
                raise InputError(
                    f"written by a newer release (it knows {', '.join(sorted(newer))})",
                    file=self.path,
                    remedy="upgrade littoral, or restore a backup made with this release",
                )
            for name, statements in migrations:
                if name not in applied:
                    for statement in statements.split(";"):
                        connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (?)", (name,))
