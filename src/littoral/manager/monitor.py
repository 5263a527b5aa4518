"""The resource monitor: who sent a heartbeat lately, what it said, and who fell silent.

Devices that never sent one are taken to be there. Beats live in memory; what must outlive the manager is in the
database: who sends beats, and who is lost. After a start everybody has the whole limit to be heard again.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from littoral.manager.database import Database
from littoral.manager.events import Events
from littoral.manager.present import Absent
from littoral.manager.refusals import Conflict
from littoral.profiling.rows import State
from littoral.rundir import RunFolder
from littoral.strikes import Strikes

MIGRATION = (
    "heartbeats",
    "CREATE TABLE heartbeats (device TEXT PRIMARY KEY, heard REAL NOT NULL, lost INTEGER NOT NULL) WITHOUT ROWID",
)
LOST_AFTER_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A device's newest heartbeat: ``heard`` by our clock, ``sent`` by the device's; ``load`` None: none since start.

    ``since`` is from when its silence counts.
    """

    heard: float
    since: float
    sent: float = float("-inf")
    load: State | None = None
    lost: bool = False


class Monitor:
    """Heartbeats of one data folder, and the strikes beside its runs."""

    def __init__(
        self, database: Database, events: Events, runs: Path, lost_after_s: float = LOST_AFTER_S,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.lost_after_s = lost_after_s
        self._database, self._events, self._now = database, events, now
        self.book = RunFolder(runs / "strikes")  # strikes lie beside the folders of runs
        self._lock = threading.Lock()
        self._beats: dict[str, Beat] = {}

    def start(self) -> None:
        """Remember who sends beats."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT * FROM heartbeats").fetchall()
        now = self._now()
        with self._lock:
            self._beats = {
                row["device"]: Beat(heard=row["heard"], since=now, lost=bool(row["lost"])) for row in rows
            } | self._beats

    def receive(self, device: str, sent: float, load: State) -> Beat:
        """Take a beat; one that is older than the last is refused, unless the device was lost meanwhile.

        So a device whose clock was set back is heard again once its silence has lasted.
        """
        with self._lock:
            now, known = self._now(), self._beats.get(device)
            if known is not None and not known.lost and sent < known.sent:
                late = known.sent - sent
                raise Conflict(f"this heartbeat of {device} was sent {late:.3f} s before one that is here already")
            beat = Beat(heard=now, since=now, sent=sent, load=load)
            if known is None or known.lost:
                self._write({device: beat}, "device.returned" if known else "device.heard")
            self._beats[device] = beat
        return beat

    def watch(self) -> list[str]:
        """Hold those lost who were silent for too long; their names."""
        with self._lock:
            now = self._now()
            silent = {
                name: replace(beat, lost=True)
                for name, beat in self._beats.items()
                if not beat.lost and now - beat.since > self.lost_after_s
            }
            if silent:
                self._write(silent, "device.lost")
                self._beats |= silent
        return sorted(silent)

    def beats(self) -> dict[str, Beat]:
        """The newest of each device."""
        with self._lock:
            return dict(self._beats)

    def strikes(self) -> Strikes:
        """Of all devices."""
        return self.book.strikes()

    def absent(self) -> Absent:
        """Who is not to be planned with in the next run."""
        now, strikes = self._now(), self.strikes().begin_run()
        lost = {
            name: f"was silent for {now - beat.heard:.0f} s"
            for name, beat in self.beats().items()
            if beat.lost or now - beat.since > self.lost_after_s
        }
        return Absent(lost=lost, struck=tuple(name for name in strikes.nodes if strikes.excluded(name)))

    def _write(self, beats: dict[str, Beat], kind: str) -> None:
        with self._database.write() as connection:
            for device, beat in beats.items():
                _keep(connection, device, beat)
                self._events.append(connection, kind, f"devices/{device}", {"heard": beat.heard})


def _keep(connection: sqlite3.Connection, device: str, beat: Beat) -> None:
    connection.execute("INSERT OR REPLACE INTO heartbeats VALUES (?, ?, ?)", (device, beat.heard, beat.lost))
