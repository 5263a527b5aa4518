"""The processes of a run: started, greeted, watched, replaced. Whoever is taken for lost is killed first."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from littoral.errors import RunFailed
from littoral.events import NodeLost, NodeReturned, NodeStarted
from littoral.worlds.node import Message
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.control import COORDINATOR, Hello, Roster, StartProgram
from littoral.worlds.processes.detector import Detector
from littoral.worlds.processes.seats import Seat, seats_of
from littoral.worlds.wire.endpoint import Peer
from littoral.worlds.wire.keys import new_keys

if TYPE_CHECKING:
    from littoral.worlds.processes.session import Session

TICK_S = 0.1
START_S = 120.0  # for all processes to import their libraries and say hello
PAUSE_S = 0.5  # longer after every such life
FAILURES = 5  # lives in a row that end before they begin, after which a process is given up


class Crew:
    """One seat per process, and who sits there now."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seats = seats_of(session.job, session.plan)
        self.begun = False
        self._all_here = asyncio.Event()

    def __getitem__(self, name: str) -> Seat:
        return self.seats[name]

    @property
    def trainees(self) -> list[Seat]:
        """Workers and servers that are there."""
        return [seat for seat in self.seats.values() if seat.trains and seat.present]

    # -- coming -------------------------------------------------------------------------------------------------

    async def gather(self) -> None:
        """Start everybody and wait until all have said hello."""
        for seat in self.seats.values():
            self._start_process(seat)
        try:
            async with asyncio.timeout(START_S):
                await self._all_here.wait()
        except TimeoutError:
            missing = [seat.name for seat in self.seats.values() if not seat.present]
            raise RunFailed(f"{', '.join(missing)} did not start; see the logs in the run's folder") from None

    def begin(self) -> None:
        """The run's clock starts: from now on silence means something."""
        self.begun = True
        for seat in self.seats.values():
            seat.admitted = seat.present
            seat.detector = Detector(self._session.clock())
        for seat in self.seats.values():
            self.start(seat)

    def _start_process(self, seat: Seat) -> None:
        session = self._session
        session.endpoint.meet(seat.peer)
        device = next((d for d in session.job.continuum.devices if d.name == seat.device), None)
        boot = Boot(
            run=session.job.name, node=seat.name, kind=seat.kind, place=session.ground.place(seat.device),
            keys=seat.keys, peers=tuple(other.peer for other in self.seats.values() if other is not seat),
            coordinator=Peer(COORDINATOR, session.address, session.keys.public),
            clock_zero=time.monotonic() - session.clock(), seed=session.seed, plan=session.plan,
            task=session.job.task, task_options=session.job.task_options, recipe=session.job.recipe,
            paths=tuple(sys.path), pantry=str(session.folder / "pantry" / seat.name) if session.folder else "",
            largest_message=session.largest_message, app=seat.app,
            cores=device.cpu if session.ground.lab and device and device.cpu else 1.0,
            threads=max(1, int(device.cpu or 1)) if device else 1, card=device.card if device else None,
            environment=session.cards.environment(device) if device else {},
        )  # fmt: skip
        session.launcher.start(seat.name, seat.device, boot)

    def welcome(self, seat: Seat, hello: Hello) -> None:
        """A process says hello: it hears where the others are, and they where it is."""
        session = self._session
        seat.address, seat.present, seat.failures = hello.address, True, 0
        session.endpoint.meet(seat.peer)
        seat.detector = Detector(session.clock()) if self.begun else None
        session.post(seat.name, Roster(tuple(other.peer for other in self.seats.values())))
        self.tell(Roster((seat.peer,)), but=seat.name)
        seat.lost = False
        if not self.begun:
            if all(each.present for each in self.seats.values()):
                self._all_here.set()
            return
        if seat.kind != "app":
            session.emit(NodeReturned(session.clock(), seat.name))
        if not seat.trains:
            self.start(seat)

    def start(self, seat: Seat) -> None:
        """Have a node run its program from the beginning."""
        session = self._session
        if not seat.present or (seat.trains and not self._takes_part(seat)):
            return
        absent = tuple(each.name for each in self.seats.values() if each.trains and not self._takes_part(each))
        if seat.trains:
            seat.running = True
            session.emit(NodeStarted(session.clock(), seat.name))
        start = StartProgram(
            session.generation, seat.series, session.members, absent, seat.batch, session.books.rounds.counted
        )
        session.post(seat.name, start)

    def _takes_part(self, seat: Seat) -> bool:
        return seat.present and seat.admitted and (seat.kind == "server" or seat.name in self._session.members)

    # -- going --------------------------------------------------------------------------------------------------

    def exited(self, name: str, how: str) -> None:
        """A process ended by itself, or was killed."""
        session = self._session
        if not name:
            session.fail(RunFailed("the process that starts nodes died, and all of them with it"))
            return
        seat = self.seats[name]
        if not seat.present and not session.stopping:
            seat.failures += 1
            if seat.failures >= FAILURES or not self.begun:
                session.fail(RunFailed(f"{name} {how} before it could begin{session.last_words(name)}"))
                return
        self.lose(seat, how)

    def lose(self, seat: Seat, reason: str) -> None:
        """A process is gone or counts as gone: make sure that it is, lock it out, tell, and start another."""
        session = self._session
        session.launcher.signal(seat.name, signal.SIGKILL)
        was_there, seat.present, seat.running, seat.admitted, seat.address = seat.present, False, False, False, ""
        session.talks.lost(seat.name)
        session.endpoint.forget(seat.name)
        if session.stopping:
            return  # nobody needs another one, but nobody must wait for this one
        # Its successor's keys, so that what it still has under way is a stranger's, and the successor is none.
        seat.keys = new_keys()
        self.tell(Roster((seat.peer,)), but=seat.name)
        if seat.kind != "app" and was_there and not seat.lost:
            seat.lost = True
            session.emit(NodeLost(session.clock(), seat.name, reason))
        session.faults.when_free(seat, self._start_process, after_s=PAUSE_S * seat.failures)

    async def gone(self, seconds: float) -> None:
        """Wait until everybody has ended, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(seat.present for seat in self.seats.values()):
                    await asyncio.sleep(TICK_S / 10)

    async def watch(self) -> None:
        """Look who has fallen silent; after an absence of our own everybody gets another chance."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now, late = self._session.clock(), time.monotonic() - before > 5 * TICK_S
            before = time.monotonic()
            for seat in self.seats.values():
                if seat.present and seat.detector is not None:
                    if late:
                        seat.detector.excuse(now)
                    elif seat.detector.silent(now):
                        self.lose(seat, "does not answer")

    # -- talking ------------------------------------------------------------------------------------------------

    def tell(self, message: Message, but: str = "", trainees: bool = False) -> None:
        """A word to everybody who is there."""
        for seat in self.seats.values():
            if seat.present and seat.name != but and (seat.trains or not trainees):
                self._session.post(seat.name, message)
