"""The runs of updates are the manager's own jobs: the same queue, processes and checkpoints as those of users."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

import msgspec

from littoral.errors import InputError
from littoral.manager.documents import Given
from littoral.manager.jobs import RunOptions
from littoral.manager.planning import Wish
from littoral.manager.refusals import Conflict
from littoral.manager.runs import RunState
from littoral.manager.trainer import Standing
from littoral.manager.triggers import Cost

if TYPE_CHECKING:
    from littoral.manager.manager import Manager


class UpdateRuns:
    """A trainer that submits jobs; which run belongs to which key is written with the run itself."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def start(self, key: str, job: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        """The run of this key, submitted unless it was."""
        given, how = self._given(job), msgspec.convert(dict(options), RunOptions)
        with self._manager.database.write() as connection:
            run = _known(connection, key)
            if run is None:
                run = self._manager.jobs.submit(connection, given, how)[1].number
                connection.execute("INSERT INTO update_runs VALUES (?, ?)", (key, run))
        self._manager.launcher.wake()
        return str(run)

    def state(self, run: str) -> Standing:
        """How a run stands."""
        found = self._manager.runs.get(int(run))
        folder = self._manager.launcher.folder(found.number)
        match found.state:
            case RunState.FINISHED:
                return Standing(state="finished", folder=folder, cost=_cost(self._manager.runs.result(found.number)))
            case RunState.FAILED:
                return Standing(state="failed", folder=folder, reason=found.reason)
            case RunState.STOPPED:
                return Standing(state="stopped", folder=folder, reason=found.reason)
        return Standing(state="running" if found.state is RunState.RUNNING else "waiting", folder=folder)

    def stop(self, run: str) -> None:
        """Have it stopped, unless it has ended."""
        try:
            with self._manager.database.write() as connection:
                self._manager.runs.ask_stop(connection, int(run))
        except Conflict:
            return
        self._manager.launcher.wake()

    def predict(self, job: Mapping[str, Any], options: Mapping[str, Any]) -> Cost:
        """By the plan."""
        plan = self._manager.plans.make(self._given(job), Wish())[0].plan
        return Cost(time_s=plan["predicted"]["time_s"], usd=plan["predicted"]["cost_usd"])

    def _given(self, job: Mapping[str, Any]) -> Given:
        """With a copy of the continuum as it is now."""
        name, profile = job.get("continuum"), job.get("profile")
        if not isinstance(name, str):
            raise InputError("the model's training.job names no continuum", remedy="name one that the manager keeps")
        files = self._manager.profiles.files(profile) if isinstance(profile, str) else {}
        document = json.loads(json.dumps(job))
        document["task"]["folder"] = os.path.relpath(document["task"]["folder"], self._manager.folder.resolve())
        return Given(job=document, continuum=self._manager.continuums.get(name).document, profile=files)


def _known(connection: Connection, key: str) -> int | None:
    row = connection.execute("SELECT run FROM update_runs WHERE key = ?", (key,)).fetchone()
    return None if row is None else int(row["run"])


def _cost(result: Mapping[str, Any]) -> Cost:
    return Cost(time_s=float(result["time_s"]), usd=float(result["cost_usd"]))
