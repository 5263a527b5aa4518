"""An update of a model, as a state machine in the database:

    waiting -> planned -> running -> judging -> promoted | refused | failed | given up

Every step can be done again: what it writes outside the database is found there, or the same, the second time. So an
update goes on after a kill where it was, and none runs twice. The index ``one_update`` allows one at a time per model.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from littoral.errors import LittoralError
from littoral.manager.database import Database
from littoral.manager.freezing import freeze_samples, job_for
from littoral.manager.gate import Score, Verdict
from littoral.manager.judging import Judge
from littoral.manager.model_records import Model, find_model
from littoral.manager.refusals import Conflict, unknown
from littoral.manager.registry import Registry
from littoral.manager.samples import Samples
from littoral.manager.stores import find_store
from littoral.manager.trainer import Standing, Trainer
from littoral.manager.weights import harvest

_log = logging.getLogger(__name__)
ENDED = ("promoted", "refused", "failed", "given up")
Tell = Callable[[Connection, str, str, Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A trigger that asks for an update: the store's clock at its alarm, and the update that this one follows up."""

    trigger: int
    alarm: int | None = None
    follows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update: ``why`` it was asked for, the ``reason`` for its state; ``labelled`` is the store's clock then.

    ``alarm`` is the same clock when the trigger's alarm came, ``follows`` the update that this one is a follow-up of.
    """

    number: int
    model: str
    trigger: int | None
    why: str
    state: str
    reason: str
    labelled: int
    parent: int | None
    attempt: int
    job: dict[str, Any] | None
    run: str | None
    version: int | None
    time_s: float | None
    cost_usd: float | None
    created: float
    ended: float | None
    alarm: int | None
    follows: int | None


class Updates:
    """All updates. ``advance`` is for one thread only; the rest is for all."""

    def __init__(
        self, database: Database, samples: Samples, registry: Registry, trainer: Trainer, folder: Path, tell: Tell
    ) -> None:
        self._database, self._samples, self._registry = database, samples, registry
        self._trainer, self._folder, self._tell = trainer, folder.resolve(), tell

    # -- asking -------------------------------------------------------------------------------------------------

    def request(self, connection: Connection, model: str, why: str, now: float, by: Asker | None = None) -> Update:
        """A new update; refused while another one of the model is under way."""
        asker = {"trigger": None, "alarm": None, "follows": None} if by is None else asdict(by)
        found = find_model(connection, model)
        labelled = find_store(connection, found.store).labelled
        try:
            number = connection.execute(
                "INSERT INTO updates (model, why, state, labelled, parent, created, trigger, alarm, follows) "
                "VALUES (?, ?, 'waiting', ?, ?, ?, ?, ?, ?)",
                (model, why, labelled, found.current, now, *asker.values()),
            ).lastrowid
        except sqlite3.IntegrityError as error:
            raise Conflict(f"model {model!r} is being updated", remedy="wait for it, or give it up") from error
        self._tell(connection, "update.asked", f"models/{model}", {"update": number, "why": why, **asker})
        return find_update(connection, number or 0)

    def give_up(self, connection: Connection, number: int, now: float, reason: str) -> Update:
        """End an update without a result; its run is for the caller to stop."""
        update = find_update(connection, number)
        if update.ended is not None:
            raise Conflict(f"update {number} is {update.state} already")
        self._change(connection, update, "given up", reason=reason, ended=now)
        return find_update(connection, number)

    def get(self, number: int) -> Update:
        """One update."""
        with self._database.read() as connection:
            return find_update(connection, number)

    def of_model(self, model: str, after: int, most: int) -> list[Update]:
        """The newest first, with numbers below ``after`` (0: from the newest)."""
        with self._database.read() as connection:
            find_model(connection, model)
            rows = connection.execute(
                "SELECT * FROM updates WHERE model = ? AND (? = 0 OR number < ?) ORDER BY number DESC LIMIT ?",
                (model, after, after, most),
            ).fetchall()
        return [_update(row) for row in rows]

    def unfinished(self) -> list[Update]:
        """The oldest first."""
        with self._database.read() as connection:
            return [
                _update(row) for row in connection.execute("SELECT * FROM updates WHERE ended IS NULL ORDER BY number")
            ]

    def given_up(self, most: int) -> list[Update]:
        """The newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM updates WHERE state = 'given up' ORDER BY number DESC LIMIT ?", (most,)
            ).fetchall()
        return [_update(row) for row in rows]

    # -- doing --------------------------------------------------------------------------------------------------

    def advance(self, number: int, now: float) -> Update:
        """Do the next step, if it can be done now."""
        update = self.get(number)
        step = {
            "waiting": self._plan, "planned": self._start, "running": self._look, "judging": self._judge,
        }.get(update.state)  # fmt: skip
        try:
            if step is not None:
                step(update, self._registry.get(update.model), now)
        except (OSError, sqlite3.Error):
            raise  # a full disk, say: it may be better next time
        except LittoralError as error:
            self._end(update, "failed", str(error), now)
        except Exception as error:  # a file that a power cut damaged, say: it would fail again, for ever
            _log.exception("update %d", number)
            self._end(update, "failed", f"{type(error).__name__}: {error}", now)
        return self.get(number)

    def _plan(self, update: Update, model: Model, now: float) -> None:
        folder = self.folder_of(update.number) / "data"
        start = None
        if update.parent is not None:
            start = self._registry.weights.read(model.name, self._registry.version(model.name, update.parent).file)
        sizes = freeze_samples(self._samples, model, update.labelled, folder, start, seed=update.number)
        job = job_for(model, f"{model.name}-update-{update.number}", folder, sizes)
        self._step(update, "planned", job=json.dumps(job))

    def _start(self, update: Update, model: Model, now: float) -> None:
        folder = self.folder_of(update.number) / "data"
        if not folder.exists():  # the disk lost it: freeze it again
            self._step(update, "waiting")
            return
        job = dict(update.job or {})
        job["task"] = {**job["task"], "folder": str(folder)}  # the data folder may have moved since
        run = self._trainer.start(f"update-{update.number}-{update.attempt}", job, model.training.options)
        if not self._step(update, "running", run=run):
            self._trainer.stop(run)  # given up meanwhile

    def _look(self, update: Update, model: Model, now: float) -> None:
        found = self._trainer.state(update.run or "")
        if found.state == "finished":
            cost = found.cost
            self._step(update, "judging", time_s=cost and cost.time_s, cost_usd=cost and cost.usd)
        elif found.state == "failed" and found.again and update.attempt + 1 < model.training.attempts:
            reason = f"run {update.run} failed ({found.reason}); trying again"
            self._step(update, "planned", attempt=update.attempt + 1, run=None, reason=reason)
        elif found.state == "stopped":
            self._end(update, "given up", f"run {update.run} was stopped", now)
        elif found.state == "failed":
            self._end(update, "failed", f"run {update.run} failed: {found.reason}", now)

    def _judge(self, update: Update, model: Model, now: float) -> None:
        run: Standing = self._trainer.state(update.run or "")
        file = self._registry.weights.keep(model.name, harvest(model.make_task(), run.folder))
        judge = Judge(model, self._samples, self._registry, since=update.alarm)
        score = judge.score(file)
        verdict = model.gate.judge(score, judge.current())
        self._conclude(update, model, file, score, verdict, now)

    def _conclude(self, update: Update, model: Model, file: str, score: Score, verdict: Verdict, now: float) -> None:
        """One transaction: the version, its promotion, the end of the update."""
        name, state = update.model, "promoted" if verdict.passed else "refused"
        with self._database.write() as connection:
            if find_update(connection, update.number).state != "judging":
                return  # given up meanwhile
            if find_model(connection, name).current != model.current:
                return  # compared with a version that is not served any more: judge again
            version = self._registry.add(
                connection, name, file, reason=verdict.reason, now=now, parent=update.parent, run=update.run,
                score=score, state="candidate" if verdict.passed else "refused",
            )  # fmt: skip
            if verdict.passed:
                self._registry.promote(connection, name, version.number, reason=verdict.reason, now=now)
            self._change(connection, update, state, reason=verdict.reason, version=version.number, ended=now)

    def tidy(self) -> None:
        """Remove the frozen data of updates that have ended."""
        kept = {self.folder_of(update.number).name for update in self.unfinished()}
        for folder in self._folder.glob("update-*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def folder_of(self, number: int) -> Path:
        """Where an update keeps its training set until it has ended."""
        return self._folder / f"update-{number}"

    # -- writing ------------------------------------------------------------------------------------------------

    def _step(self, update: Update, state: str, **columns: object) -> bool:
        with self._database.write() as connection:
            return self._change(connection, update, state, **columns)

    def _end(self, update: Update, state: str, reason: str, now: float) -> None:
        self._step(update, state, reason=reason, ended=now)

    def _change(self, connection: Connection, update: Update, state: str, **columns: object) -> bool:
        """Unless it is in another state by now: given up, say; whether it was done."""
        names = ", ".join(f"{name} = ?" for name in ("state", *columns))
        changed = connection.execute(
            f"UPDATE updates SET {names} WHERE number = ? AND state = ?",
            (state, *columns.values(), update.number, update.state),
        )
        if changed.rowcount:
            data = {"update": update.number, **{k: v for k, v in columns.items() if k in ("reason", "run", "version")}}
            self._tell(connection, f"update.{state.replace(' ', '-')}", f"models/{update.model}", data)
        return bool(changed.rowcount)


def find_update(connection: Connection, number: int) -> Update:
    """One update."""
    row = connection.execute("SELECT * FROM updates WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise unknown("update", number)
    return _update(row)


def _update(row: Row) -> Update:
    columns = {key: row[key] for key in row.keys()}  # noqa: SIM118 (not a dict)
    job = None if row["job"] is None else json.loads(row["job"])
    return Update(**{**columns, "job": job})
