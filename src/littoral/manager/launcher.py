"""Starts a process per run, in order and so many at a time, follows each, and says how it ended.

A run's process ends with the manager (see ``runner``). So when a manager starts, whatever the database calls running
is not, or is just ending: it is queued again, and its next process waits for the folder and goes on from the
checkpoint. A process that was killed is started again, three times at most.
"""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import msgspec

from littoral.interruption import EXIT_CODE
from littoral.manager.database import Database
from littoral.manager.events import Events
from littoral.manager.follower import Follower
from littoral.manager.jobs import Jobs
from littoral.manager.paging import Window
from littoral.manager.present import Absent
from littoral.manager.run_process import RunProcess, failure
from littoral.manager.runner import ERROR, ORDER, Order, outcome
from littoral.manager.runs import Progress, Run, Runs, RunState
from littoral.planning.plan import Plan
from littoral.result import FINISHED
from littoral.run import Options
from littoral.rundir import write_whole

LOG = "log.txt"
MOST_DEATHS = 3
_LOOK_S = 0.2  # between two looks at the runs
_NOTE_S = 2.0  # between two notes of progress
_log = logging.getLogger(__name__)
Hook = Callable[[Connection, Run], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where runs are kept, how many may run at once, and which Ray cluster they join."""

    folder: Path
    at_once: int = 1
    address: str = ""


class Launcher:
    """Runs what is queued. ``ended`` hooks are called in the transaction that ends a run."""

    def __init__(
        self, database: Database, events: Events, jobs: Jobs, runs: Runs, place: Place,
        now: Callable[[], float] = time.time, absent: Callable[[], Absent] = Absent,
    ) -> None:  # fmt: skip
        self.ended: list[Hook] = []
        self._database, self._events, self._jobs, self._runs = database, events, jobs, runs
        self._place, self._now, self._absent = place, now, absent
        self._children: dict[int, RunProcess] = {}
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Go on with what was running, and begin with what waits."""
        begun = self._runs.listed(Window(limit=500), RunState.RUNNING).items
        with self._database.write() as connection:
            for run in begun:
                if run.stop_asked:
                    self._finish(connection, run, RunState.STOPPED, "stopped")
                else:
                    self._runs.requeue(connection, run.number, "the manager was started again")
        self._thread = threading.Thread(target=self._work, name="launcher")
        self._thread.start()

    def stop(self) -> None:
        """Have every run checkpointed; they go on when the manager starts again."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """There is something new to do."""
        self._wake.set()

    @property
    def alive(self) -> bool:
        """Whether runs are looked after."""
        return self._thread is not None and self._thread.is_alive()

    def folder(self, number: int) -> Path:
        """Of a run."""
        return self._place.folder / str(number)

    def progress(self, run: Run) -> Progress | None:
        """How far a run is, to the moment if it is at work."""
        follower = self.following(run.number)
        return run.progress if follower is None else follower.progress

    def following(self, number: int) -> Follower | None:
        """What is known of a run at work."""
        child = self._children.get(number)
        return None if child is None else child.follower

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closing.is_set() or self._children:
            self._wake.wait(_LOOK_S)
            self._wake.clear()
            try:
                self._look()
            except Exception:
                _log.exception("the launcher failed, and goes on")

    def _look(self) -> None:
        for child in list(self._children.values()):
            self._follow(child)
            if child.process.poll() is not None:
                self._settle(child)
        while len(self._children) < self._place.at_once and not self._closing.is_set():
            with self._database.write() as connection:
                run = self._runs.begin(connection)
            if run is None:
                return
            try:
                self._launch(run)
            except Exception as error:  # a full disk, say: the run cannot be held to have begun
                _log.exception("run %d cannot be started", run.number)
                with self._database.write() as connection:
                    self._finish(connection, run, RunState.FAILED, f"it could not be started: {error}")

    def _follow(self, child: RunProcess, *, last: bool = False) -> None:
        now, number = self._now(), child.run.number
        told = child.thinner.take(child.follower.catch_up(), now, last=last)
        if told or now - child.noted > _NOTE_S:
            child.noted = now
            with self._database.write() as connection:
                for kind, data in told:
                    self._events.append(connection, kind, f"runs/{number}", data)
                self._runs.note(connection, number, child.follower.progress)
        if self._closing.is_set() or self._runs.get(number).stop_asked:
            child.ask(now)

    def _launch(self, run: Run) -> None:
        folder = self.folder(run.number)
        self._prepare(run, folder)
        self._children[run.number] = RunProcess.start(run, folder, folder / LOG, self._now)

    def _prepare(self, run: Run, folder: Path) -> None:
        """What the process reads; written anew each time, for a crash may have cut it short."""
        given, options, plan = self._jobs.order(run.job)
        shutil.rmtree(folder / "given", ignore_errors=True)
        given.write(folder / "given", self._jobs.folder)
        (folder / ERROR).unlink(missing_ok=True)
        order = Order(
            options=Options(
                world=options.world, lab=options.lab, seed=options.seed or 0, timing_only=options.timing_only,
                address=self._place.address, reference=False,
            ),
            seeded=options.seed is not None,
            plan=None if plan is None else msgspec.convert(plan, Plan),
            absent=self._absent(),
        )  # fmt: skip
        write_whole(folder / ORDER, msgspec.json.encode(order).decode())

    # -- ends -------------------------------------------------------------------------------------------------------

    def _settle(self, child: RunProcess) -> None:
        """Say how a run's process ended."""
        self._follow(child, last=True)
        run, code = self._runs.get(child.run.number), child.process.returncode
        folder = self.folder(run.number)
        result = outcome(folder)
        with self._database.write() as connection:
            self._runs.note(connection, run.number, child.follower.progress)
            if result is not None and (code == 0 or result["reason"] in FINISHED):
                state = RunState.FINISHED if result["reason"] in FINISHED else RunState.FAILED
                self._finish(connection, run, state, result["reason"], result)
            elif run.stop_asked:
                self._finish(connection, run, RunState.STOPPED, "stopped")
            elif self._closing.is_set() and code == EXIT_CODE:
                self._runs.requeue(connection, run.number, "the manager is stopping")
            elif code < 0 or code == EXIT_CODE:
                self._died(connection, run, code)
            else:
                self._finish(connection, run, RunState.FAILED, failure(folder, code))
        child.close()
        del self._children[run.number]
        self._wake.set()

    def _died(self, connection: Connection, run: Run, code: int) -> None:
        by = signal.Signals(-code).name if code < 0 else "a signal"
        if run.deaths + 1 >= MOST_DEATHS:
            reason = f"its process was killed {MOST_DEATHS} times, at last by {by}"
            self._finish(connection, run, RunState.FAILED, reason)
        else:
            self._runs.requeue(connection, run.number, f"its process was killed by {by}", died=True)

    def _finish(
        self, connection: Connection, run: Run, state: RunState, reason: str, result: dict[str, object] | None = None
    ) -> None:
        ended = self._runs.end(connection, run.number, state, reason, result)
        for hook in self.ended:
            hook(connection, ended)
