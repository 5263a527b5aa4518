"""Whether the manager can do its work, and what is wrong if not.

A pulse writes a row every few seconds, in a thread of its own, so that asking for the health costs nothing and waits
for nobody: what counts is how long ago the last one reached the disk, or how it failed.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from littoral.manager.database import Database
from littoral.units import show_bytes

if TYPE_CHECKING:
    from littoral.manager.manager import Manager

MIGRATION = ("pulse", "CREATE TABLE pulse (id INTEGER PRIMARY KEY CHECK (id = 1), at REAL NOT NULL)")
BEAT_S, LATE_S = 10.0, 30.0  # between two writes, and until their absence counts
_LOOK_S = 1.0
_log = logging.getLogger(__name__)


class Pulse:
    """Writes to the database now and then, and does ``acts`` every second."""

    def __init__(
        self, database: Database, acts: Sequence[Callable[[], object]] = (), *, beat_s: float = BEAT_S,
        late_s: float = LATE_S, look_s: float = _LOOK_S,
    ) -> None:  # fmt: skip
        self._database, self._acts = database, acts
        self._beat_s, self._late_s, self._look_s = beat_s, late_s, look_s
        self._beaten, self._failure = time.monotonic(), ""
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """The acts have a thread of their own, lest a stuck disk delay them."""
        self._beaten = time.monotonic()
        for target, every_s in ((self._act, self._look_s), (self._beat, self._beat_s)):
            thread = threading.Thread(target=self._repeat, args=(target, every_s), name="pulse", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """After what is under way."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def fault(self) -> str:
        """What is wrong with the disk or the database; '' if nothing is."""
        silent_s = time.monotonic() - self._beaten
        if self._failure:
            return f"the database cannot be written: {self._failure}"
        if silent_s > self._late_s:
            return f"the database took no write for {silent_s:.0f} s"
        return ""

    def _repeat(self, act: Callable[[], None], every_s: float) -> None:
        while not self._ending.wait(every_s):
            act()

    def _act(self) -> None:
        for act in self._acts:
            try:
                act()
            except (OSError, sqlite3.Error):  # a full disk, say; the next time may do
                _log.exception("a regular task failed")

    def _beat(self) -> None:
        try:
            with self._database.write() as connection:
                connection.execute("INSERT OR REPLACE INTO pulse VALUES (1, ?)", (time.time(),))
            self._beaten, self._failure = time.monotonic(), ""
        except sqlite3.Error as error:
            self._failure = str(error)


def find_faults(manager: Manager) -> dict[str, str]:
    """What is checked, each with what is wrong with it; '' if nothing is."""
    free = shutil.disk_usage(manager.folder).free
    short = free < manager.options.least_free_bytes
    return {
        "database": manager.pulse.fault(),
        "disk": f"only {show_bytes(free)} are free; make room, or lower --least-free" if short else "",
        "launcher": "" if manager.launcher.alive else "nobody looks after the runs; start the manager again",
        "life cycle": "" if manager.life.alive else "nobody looks after the models; start the manager again",
        "service": "the manager is stopping" if manager.closing.is_set() else "",
    }
