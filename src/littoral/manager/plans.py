"""Plans that were made: decisions with their predictions and reasons, to be looked at, compared and run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from littoral.errors import Infeasible, InputError
from littoral.manager.children import command, environment
from littoral.manager.database import Database
from littoral.manager.documents import DRAFTS, Given
from littoral.manager.events import Events
from littoral.manager.paging import Page, Window, page
from littoral.manager.planning import WISH, Answer, Made, Wish
from littoral.manager.present import Absent
from littoral.manager.refusals import unknown

MIGRATION = (
    "plans",
    """CREATE TABLE plans (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, job TEXT NOT NULL,
       plan TEXT NOT NULL, fairness REAL NOT NULL, simulated TEXT, created REAL NOT NULL)""",
)
LONGEST_S = 120.0  # that making plans may take
KEPT = 1_000  # the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan for a job's document: who works on how much with which batch, what that should take, and why."""

    number: int
    name: str
    created: float
    job: dict[str, Any]
    plan: dict[str, Any]
    fairness: float
    simulated: dict[str, Any] | None


class Plans:
    """The plans of one data folder. They are made one at a time, each in a process of its own."""

    def __init__(
        self, database: Database, events: Events, folder: Path, now: Callable[[], float] = time.time,
        absent: Callable[[], Absent] = Absent,
    ) -> None:  # fmt: skip
        self._database, self._events, self._folder, self._now = database, events, folder, now
        self._absent = absent
        self._turn = threading.Lock()

    def make(self, given: Given, wish: Wish) -> list[Made]:
        """Plan a job; to be done before a transaction. Raises Infeasible with the constraint that binds."""
        with self._turn, TemporaryDirectory(dir=self._folder / DRAFTS) as folder:
            given.write(Path(folder) / "given", self._folder)
            (Path(folder) / WISH).write_bytes(msgspec.json.encode(replace(wish, absent=self._absent())))
            answer = _asked(Path(folder))
        if answer.infeasible:
            raise Infeasible(answer.refused)
        if answer.refused:
            raise InputError(answer.refused, remedy=answer.remedy, key="job")
        return answer.plans

    def keep(self, connection: sqlite3.Connection, given: Given, made: list[Made]) -> list[PlanRecord]:
        """Keep plans; the oldest give way."""
        records = [self._keep(connection, given, one) for one in made]
        connection.execute("DELETE FROM plans WHERE number <= ?", (records[-1].number - KEPT,))
        return records

    def _keep(self, connection: sqlite3.Connection, given: Given, made: Made) -> PlanRecord:
        simulated = None if made.simulated is None else json.dumps(made.simulated)
        name = str(given.job.get("name", "job"))
        row = (name, json.dumps(given.job), json.dumps(made.plan), made.fairness, simulated, self._now())
        cursor = connection.execute(
            "INSERT INTO plans (name, job, plan, fairness, simulated, created) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        number = int(cursor.lastrowid or 0)
        self._events.append(connection, "plan.made", f"plans/{number}", {"name": name})
        return self._find(connection, number)

    def delete(self, connection: sqlite3.Connection, number: int) -> None:
        """Forget a plan; jobs that run it have copies."""
        self._find(connection, number)
        connection.execute("DELETE FROM plans WHERE number = ?", (number,))

    def get(self, number: int) -> PlanRecord:
        """A plan."""
        with self._database.read() as connection:
            return self._find(connection, number)

    def listed(self, window: Window, name: str | None = None) -> Page[PlanRecord]:
        """Plans, the oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM plans WHERE number > ? AND (? IS NULL OR name = ?) ORDER BY number LIMIT ?",
                (window.after_number, name, name, window.limit + 1),
            ).fetchall()
        return page(rows, window, lambda row: row["number"], _record)

    def _find(self, connection: sqlite3.Connection, number: int) -> PlanRecord:
        row = connection.execute("SELECT * FROM plans WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise unknown("plan", number)
        return _record(row)


def _asked(folder: Path) -> Answer:
    try:
        done = subprocess.run(
            command("littoral.manager.planning", str(folder.resolve())), env=environment(), cwd=folder,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST_S, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        remedy = "name a strategy and a simpler planner, such as proportional"
        raise InputError(f"planning took more than {LONGEST_S:g} s", remedy=remedy, key="job") from error
    if done.returncode != 0:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"planning failed: {last}", remedy="check the task's options", key="job")
    return msgspec.json.decode(done.stdout, type=Answer)


def _record(row: sqlite3.Row) -> PlanRecord:
    return PlanRecord(
        number=row["number"], name=row["name"], created=row["created"], job=json.loads(row["job"]),
        plan=json.loads(row["plan"]), fairness=row["fairness"],
        simulated=None if row["simulated"] is None else json.loads(row["simulated"]),
    )  # fmt: skip
