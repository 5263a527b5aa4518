"""The manager: one data folder, its database and the parts that share it. One process at a time has the folder.

A part is a plain class that takes the database. What changes things takes the connection of an open transaction, so
that an effect, its event and its kept answer are written together or not at all.
"""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from littoral.errors import InputError
from littoral.manager import continuums, events, health, idempotency, jobs, monitor, plans, profiles, runs, tokens
from littoral.manager.continuums import Continuums
from littoral.manager.database import Database
from littoral.manager.devices import Devices
from littoral.manager.documents import DRAFTS
from littoral.manager.events import Events
from littoral.manager.health import Pulse
from littoral.manager.idempotency import Idempotency
from littoral.manager.jobs import Jobs
from littoral.manager.launcher import Launcher, Place
from littoral.manager.lifecycle import LifeCycle
from littoral.manager.monitor import Monitor
from littoral.manager.plans import Plans
from littoral.manager.profiles import Profiles
from littoral.manager.run_folders import Keep, RunFolders
from littoral.manager.runs import Runs
from littoral.manager.tables import MIGRATIONS as LIFE
from littoral.manager.tokens import Tokens
from littoral.manager.update_runs import UpdateRuns

_PARTS = (tokens, idempotency, events, continuums, profiles, plans, jobs, runs)
MIGRATIONS = (*(part.MIGRATION for part in _PARTS), *LIFE, monitor.MIGRATION, health.MIGRATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """How the manager works, as opposed to what it keeps."""

    body_limit: int = 16 * 2**20  # bytes of one request
    allowed: tuple[str, ...] = ()  # tasks, strategies and apps of one's own, as 'package.module' or with ':Class'
    runs: int = 1  # that may run at once; others wait in order
    ray_address: str = ""  # of the cluster that runs in the ray world join
    lost_after_s: float = monitor.LOST_AFTER_S  # of silence, for devices that send heartbeats
    keep: Keep = field(default_factory=Keep)  # of the folders of runs that have ended
    least_free_bytes: int = 256 * 2**20  # on the disk; with less the manager is not healthy


class Manager:
    """All parts of one data folder."""

    def __init__(
        self, folder: Path, options: ManagerOptions = ManagerOptions(), *, now: Callable[[], float] = time.time
    ) -> None:
        self.folder, self.options, self.now = folder, options, now
        self.database = Database(folder, MIGRATIONS)
        self.tokens = Tokens(self.database, now)
        self.idempotency = Idempotency(self.database, now)
        self.events = Events(self.database, now)
        self.continuums = Continuums(self.database, self.events, options.allowed, now)
        self.profiles = Profiles(self.database, self.events, now)
        self.runs = Runs(self.database, self.events, now)
        self.jobs = Jobs(
            self.database, self.events, self.runs, self.continuums, self.profiles, folder=folder,
            allowed=options.allowed, now=now,
        )  # fmt: skip
        place = Place(folder=folder / "runs", at_once=options.runs, address=options.ray_address)
        self.monitor = Monitor(self.database, self.events, place.folder, options.lost_after_s, now)
        self.plans = Plans(self.database, self.events, folder, now, self.monitor.absent)
        self.launcher = Launcher(self.database, self.events, self.jobs, self.runs, place, now, self.monitor.absent)
        self.devices = Devices(self.continuums, self.jobs, self.runs, self.launcher, self.monitor)
        self.folders = RunFolders(self.database, self.events, place.folder, options.keep, now)
        self.pulse = Pulse(self.database, [self.monitor.watch, self.folders.watch])
        self.life = LifeCycle(self.database, folder, UpdateRuns(self), now=now, tell=self.events.append)
        self.closing = threading.Event()  # streams end when it is set
        self._lock: IO[str] | None = None

    def start(self) -> None:
        """Take the folder and go on with what was begun; a second start changes nothing."""
        if self._lock is not None:
            return
        self._lock = self._alone()
        shutil.rmtree(self.jobs.drafts, ignore_errors=True)  # of a manager that was killed
        for name in (DRAFTS, "runs", "datasets"):
            (self.folder / name).mkdir(exist_ok=True)
        self.monitor.start()
        self.pulse.start()
        self.launcher.start()
        self.life.start()

    def stop(self) -> None:
        """Checkpoint what runs, and let the folder go."""
        self.closing.set()
        self.life.stop()
        self.launcher.stop()
        self.pulse.stop()
        self.database.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _alone(self) -> IO[str]:
        lock = (self.folder / ".manager.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            remedy = "stop the other one, or give this one a folder of its own with --data"
            raise InputError("another manager works here", file=self.folder, remedy=remedy) from error
        return lock
