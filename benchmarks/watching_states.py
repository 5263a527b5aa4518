"""What a manager is doing, from its database: read beside it, or after it was killed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path


def opened(data: Path) -> sqlite3.Connection:
    """The database, to be read only."""
    connection = sqlite3.connect(f"file:{data / 'littoral.db'}?mode=ro", uri=True, timeout=30)
    connection.row_factory = sqlite3.Row
    return connection


class States:
    """Which phases are under way in a folder."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def now(self, flying: Counter[str]) -> dict[str, bool]:
        """By the database, and by the requests on their way."""
        connection = opened(self._data)
        updates = {row["state"] for row in connection.execute("SELECT state FROM updates WHERE ended IS NULL")}
        running = [row["number"] for row in connection.execute("SELECT number FROM runs WHERE state = 'running'")]
        connection.close()
        begun = [number for number in running if (self._data / "runs" / str(number) / "journal.jsonl").exists()]
        return {
            "ingest": flying["ingest"] > 0,
            "planning": flying["planning"] > 0 or bool(updates & {"waiting", "planned"}) or len(begun) < len(running),
            "run": bool(begun),
            "promotion": flying["promotion"] > 0,
            "judging": "judging" in updates,
        }
