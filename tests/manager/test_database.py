"""The manager's memory: nothing half-written, nothing lost, nothing newer read."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from littoral.errors import InputError
from littoral.manager.database import Database

NUMBERS = ("numbers", "CREATE TABLE numbers (value INTEGER PRIMARY KEY)")
WRITER = """
import sys
from pathlib import Path
from littoral.manager.database import Database
database = Database(Path(sys.argv[1]), [("numbers", "CREATE TABLE numbers (value INTEGER PRIMARY KEY)")])
for value in range(1_000_000):
    with database.write() as connection:
        connection.execute("INSERT INTO numbers VALUES (?)", (2 * value,))
        connection.execute("INSERT INTO numbers VALUES (?)", (2 * value + 1,))
    print(value, flush=True)
"""


def values(folder: Path) -> list[int]:
    database = Database(folder, [NUMBERS])
    with database.read() as connection:
        found = [row["value"] for row in connection.execute("SELECT value FROM numbers ORDER BY value")]
    database.close()
    return found


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path, [NUMBERS])
    with pytest.raises(sqlite3.IntegrityError), database.write() as connection:
        connection.execute("INSERT INTO numbers VALUES (1)")
        connection.execute("INSERT INTO numbers VALUES (1)")
    database.close()
    assert values(tmp_path) == []


def test_a_killed_writer_loses_nothing_it_told_of(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(40)]
    os.kill(writer.pid, signal.SIGKILL)
    told += [int(line) for line in writer.stdout.read().splitlines() if line]
    writer.wait()
    writer.stdout.close()
    found = values(tmp_path)
    assert len(found) % 2 == 0
    assert set(found) >= {2 * value for value in told}


def test_migrations_are_applied_once_and_newer_ones_refused(tmp_path: Path) -> None:
    Database(tmp_path, [NUMBERS]).close()
    Database(tmp_path, [NUMBERS, ("more", "CREATE TABLE more (value)")]).close()
    with pytest.raises(InputError, match=r"newer release \(it knows more\)"):
        Database(tmp_path, [NUMBERS])
