"""Folders of runs do not stay for good: of those that nobody needs, the newest do, so many or for so long.

Needed are the folders of runs that have not ended, of stopped and failed ones that could go on from their checkpoint,
of updates under way, and of whatever made a version that is served. The weights of versions lie elsewhere and stay, so
that no rollback misses anything. The run itself and its result stay in the database.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row

from littoral.manager.database import Database
from littoral.manager.events import Events
from littoral.manager.runs import RunState
from littoral.rundir import CHECKPOINT

_EVERY_S = 60.0
_GONE = ".gone-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many folders of ended runs are kept, the newest, and for how long; None: no limit."""

    most: int | None = 200
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that has ended and has a folder; ``needed`` by somebody, or not."""

    number: int
    ended: float
    needed: bool


def superfluous(runs: Iterable[Ended], keep: Keep, now: float) -> list[int]:
    """The numbers of the runs whose folders may go.

    >>> runs = [Ended(number=n, ended=10.0 * n, needed=n == 1) for n in (1, 2, 3, 4)]
    >>> superfluous(runs, Keep(most=2), now=50.0), superfluous(runs, Keep(most=None, seconds=15.0), now=50.0)
    ([2], [2, 3])
    """
    newest = sorted(runs, key=lambda run: (-run.ended, -run.number))
    beyond = newest[keep.most :] if keep.most is not None else []
    old = [run for run in newest if keep.seconds is not None and now - run.ended > keep.seconds]
    return sorted({run.number for run in [*beyond, *old] if not run.needed})


class RunFolders:
    """The folders of all runs, in one folder."""

    def __init__(
        self, database: Database, events: Events, folder: Path, keep: Keep = Keep(),
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._database, self._events, self._now = database, events, now
        self._folder, self._keep = folder, keep
        self._swept = float("-inf")

    def watch(self) -> None:
        """Sweep, once a minute."""
        if self._now() - self._swept >= _EVERY_S:
            self._swept = self._now()
            self.sweep()

    def sweep(self) -> list[int]:
        """Remove the folders that may go; the numbers of their runs."""
        gone = self._set_aside()
        for path in self._folder.glob(f"{_GONE}*"):  # also what a kill left of the last time
            shutil.rmtree(path, ignore_errors=True)
        return gone

    def _set_aside(self) -> list[int]:
        """By another name, which is quick: nobody can begin a run meanwhile."""
        with self._database.read() as connection:
            if not self._superfluous(connection):
                return []
        with self._database.write() as connection:
            gone = self._superfluous(connection)
            for number in gone:
                os.rename(self._folder / str(number), self._folder / f"{_GONE}{number}")
                self._events.append(connection, "run.cleared", f"runs/{number}")
        return gone

    def _superfluous(self, connection: Connection) -> list[int]:
        there = [int(path.name) for path in self._folder.iterdir() if path.name.isdigit()]
        rows = connection.execute(
            "SELECT number, ended, state FROM runs "
            "WHERE ended IS NOT NULL AND number IN (SELECT value FROM json_each(?))",
            (json.dumps(there),),
        ).fetchall()
        needed, of_updates = _column(connection, _NEEDED), _column(connection, "SELECT run FROM update_runs")
        return superfluous(
            [
                Ended(
                    number=row["number"], ended=row["ended"],
                    needed=row["number"] in needed or (row["number"] not in of_updates and self._resumable(row)),
                )
                for row in rows
            ],
            self._keep, self._now(),
        )  # fmt: skip

    def _resumable(self, row: Row) -> bool:
        """Whether it could go on. Those of updates are asked for otherwise: the samples of one that ended are gone."""
        return row["state"] != RunState.FINISHED and (self._folder / str(row["number"]) / CHECKPOINT).exists()


_NEEDED = """SELECT run FROM versions WHERE state = 'current' AND run IS NOT NULL
             UNION SELECT run FROM updates WHERE ended IS NULL AND run IS NOT NULL"""


def _column(connection: Connection, query: str) -> set[int]:
    return {int(row[0]) for row in connection.execute(query)}
