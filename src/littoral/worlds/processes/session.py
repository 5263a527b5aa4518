"""The coordinator of a live run: it hears the nodes, keeps the books and has commands carried out.

One event loop, driven from ``events``: while the supervisor thinks, the loop rests, so commands never race with
messages. Commands that need answers from nodes (regrouping, checkpoints) are carried out one after another by a task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from littoral.commands import Admit, Command, Exclude, Rebatch, Relaunch, Restart, SaveCheckpoint, Stop
from littoral.continuum.routes import Routes
from littoral.errors import RunFailed
from littoral.events import Event, NodeFinished, NodeLost, NodeReturned, Refused, Resumed, RunFinished, Sent
from littoral.job import Job
from littoral.learning.leases import Lease
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Strategy
from littoral.worlds.node import Message
from littoral.worlds.processes.books import Books
from littoral.worlds.processes.cards import Cards
from littoral.worlds.processes.clock import RunClock
from littoral.worlds.processes.control import (
    COORDINATOR,
    AskLeases,
    Beat,
    ClockZero,
    CommitLeases,
    Echo,
    EndRun,
    GrantLeases,
    Hello,
    MoreWork,
    PeerWentAway,
    ProgramFailed,
    ProgramFinished,
    ReleaseLeases,
    ReportEvents,
    RoundDone,
    SetBatch,
)
from littoral.worlds.processes.crew import TICK_S, Crew
from littoral.worlds.processes.faults import Faults
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.judge import Judge
from littoral.worlds.processes.launch import Launcher
from littoral.worlds.processes.membership import Membership
from littoral.worlds.processes.seats import Seat
from littoral.worlds.processes.states import Conversations
from littoral.worlds.processes.vocabulary import codec_for
from littoral.worlds.wire.endpoint import Arrival, Endpoint, Limits, PeerGone, Refusal
from littoral.worlds.wire.frames import Priority
from littoral.worlds.wire.keys import new_keys

GATHER_S = 0.02  # events are handed over in bundles, unless one needs an answer at once
GOODBYE_S = 2.0  # for nodes to tell what they still have to tell
MESSAGE_ROOM = 16 << 20  # beside the largest vector
LOG_TAIL = 600


class Session:
    """Implements ``worlds.world.Session`` with real processes."""

    def __init__(
        self, *, job: Job, plan: Plan, strategy: Strategy, mathematics: Any, keeper: Any, seed: int,
        launcher: Launcher, ground: Ground, folder: Path | None = None, struck: int = 0, cards: Cards = Cards(),
    ) -> None:  # fmt: skip
        self.job, self.plan, self.strategy, self.mathematics, self.seed = job, plan, strategy, mathematics, seed
        self.launcher, self.ground, self.folder, self.cards = launcher, ground, folder, cards
        self.clock = RunClock(time.monotonic())
        self.keys, self.address = new_keys(), ""
        self.largest_message = 4 * mathematics.length + MESSAGE_ROOM
        self.members: tuple[str, ...] = tuple(worker.name for worker in plan.workers)
        self.generation = 1
        self.group = 1  # the generation whose reports count: while a new one forms, still the one before
        self.stopping = False
        self.books = Books(plan, self.clock, self.emit)
        self.crew = Crew(self)
        self.judge = Judge(self, keeper)
        self.faults = Faults(self, struck)
        self._membership = Membership(self)
        self._routes = Routes(job.continuum)
        self._events: list[Event] = []
        self._emitted = self._handed_out = self._dealt_with = 0  # events so far
        self._woken, self._next = asyncio.Event(), asyncio.Event()
        self._commands: asyncio.Queue[Command] = asyncio.Queue()
        self._ended = False
        self._error: RunFailed | None = None
        self._since = 0.0
        self._resume_from: dict[str, Any] | None = None
        self._story: Generator[Event] | None = None
        self.endpoint = Endpoint(
            COORDINATOR, self.keys, codec_for(plan.strategy), limits=Limits(largest_message=self.largest_message),
            on_refusal=self._refused, clock=self.clock,
        )  # fmt: skip

    # -- the world's side ---------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        self._story = self._tell()
        return self._story

    def close(self) -> None:
        """End what still goes on, if nobody listens to the events any more."""
        if self._story is not None:
            self._story.close()

    def _tell(self) -> Generator[Event]:
        with asyncio.Runner() as runner:
            tasks: list[asyncio.Task[None]] = []
            try:
                runner.run(self._open(tasks))
                while not self._ended or self._events:
                    yield from runner.run(self._next_events(tasks))
            finally:
                self._end(runner.get_loop(), tasks)

    def _end(self, loop: asyncio.AbstractEventLoop, tasks: list[asyncio.Task[None]]) -> None:
        closing = loop.create_task(self._close(tasks))
        closing.add_done_callback(lambda _: loop.stop())
        while not closing.done():  # what an interruption cut short may have left the loop an order to stop
            loop.run_forever()
        closing.result()

    def emit(self, event: Event) -> None:
        """Tell the supervisor and the journal soon."""
        self._events.append(event)
        self._emitted += 1
        self._woken.set()

    async def all_told(self) -> None:
        """Wait until everything emitted so far was dealt with: it is in the journal."""
        emitted = self._emitted
        while self._dealt_with < emitted:
            self._next.clear()
            await self._next.wait()

    def fail(self, error: RunFailed) -> None:
        """Something that no supervisor can mend: the run breaks off."""
        self._error = self._error or error
        self._woken.set()

    def perform(self, command: Command) -> None:
        self._commands.put_nowait(command)
        self.stopping = self.stopping or isinstance(command, Stop)

    def resume(self) -> float:
        self._resume_from, self._since = self.judge.recall()
        self.generation = self.group = 2  # it has begun together before
        if self.judge.members_then() != set(self.members):  # those excluded then have no work of their own now
            self.books.ledger.rebalance({worker.name: float(worker.shard) for worker in self.plan.workers})
        self.emit(Resumed(self._since, self._since, self.books.ledger.done))
        return self._since

    async def _next_events(self, tasks: list[asyncio.Task[None]]) -> list[Event]:
        self._dealt_with = self._handed_out  # whoever asks for more is done with what there was
        self._next.set()
        while not self._events and not self._ended:
            if self._error is not None:  # before waiting, too: it may have come while others were told
                raise self._error
            self._woken.clear()
            waiting = asyncio.ensure_future(self._woken.wait())
            await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            for task in tasks:
                if task.done():
                    task.result()
        if not any(isinstance(event, NodeLost | NodeReturned) for event in self._events):
            await asyncio.sleep(GATHER_S)
        batch, self._events = self._events, []
        self._handed_out += len(batch)
        return batch

    async def _open(self, tasks: list[asyncio.Task[None]]) -> None:
        self.address = await self.endpoint.open(self.ground.coordinator.address)
        self.talks = Conversations(self._send)
        logs = self.folder / "logs" if self.folder else None
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
        self.launcher.attach(self.crew.exited, logs)
        tasks += [asyncio.ensure_future(each) for each in (self._read(), self._run(), self.crew.watch())]

    async def _close(self, tasks: list[asyncio.Task[None]]) -> None:
        self.stopping = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.judge.close()
        self.faults.close()
        await self.launcher.detach()
        await self.endpoint.close()

    async def _run(self) -> None:
        """Wait for everybody, put the model in place, start the clock and the programs, then carry out commands."""
        if not self.stopping:  # before anything began, and nobody needs to come
            await self.crew.gather()
        if self._resume_from is not None and not self.stopping:
            await self._membership.put_back(self._resume_from)
        while not self._commands.empty():  # who must sit out never starts
            await self._carry_out(self._commands.get_nowait())
        if self._ended:
            return
        shift = self.clock() - self._since
        self.clock.shift(shift)
        self.crew.tell(ClockZero(shift))
        self.ground.start_clock()
        self.faults.start()
        if self.books.ledger.done == 0:
            self.judge.evaluate()
        self.crew.begin()
        while not self._ended:
            await self._carry_out(await self._commands.get())

    async def _carry_out(self, command: Command) -> None:
        match command:
            case Exclude(node=node, heirs=heirs):
                await self._membership.exclude(node, heirs)
            case Admit(node=node, weights=weights):
                await self._membership.admit(node, weights)
            case Relaunch(weights=weights):
                await self._membership.roll_back(weights)
            case Restart(weights=weights):
                self.members = tuple(worker.name for worker in self.plan.workers if worker.name in weights)
                await self._membership.roll_back(weights)
            case Rebatch(node=node, batch=batch):
                self.crew[node].batch = batch
                self.post(node, SetBatch(batch))
            case SaveCheckpoint():
                await self.judge.save()
            case Stop(reason=reason):
                await self._stop(reason)
            case _:
                raise AssertionError(f"unknown command {command}")

    async def _stop(self, reason: str) -> None:
        await self.judge.finish()
        self.crew.tell(EndRun())
        await self.endpoint.flush(GOODBYE_S)
        await self.crew.gone(GOODBYE_S)
        await asyncio.sleep(TICK_S)  # for their last events
        self.emit(RunFinished(max(self.books.last_use_s, self._since, self.judge.last_s), reason))
        self._ended = True

    # -- messages -----------------------------------------------------------------------------------------------

    async def _send(self, node: str, message: Message) -> None:
        bulk = getattr(message, "vector", None) is not None
        try:
            await self.endpoint.send(node, message, priority=Priority.BULK if bulk else Priority.CONTROL)
        except PeerGone:
            self.talks.lost(node)  # its loss is or will be known; nobody must wait for its answer

    def post(self, node: str, message: Message) -> None:
        """Queue a small message; to one node they arrive in order."""
        self.endpoint.post(node, message)

    async def _read(self) -> None:
        while True:
            arrival = await self.endpoint.receive()
            seat = self.crew.seats.get(arrival.sender)
            if seat is not None:
                self._hear(seat, arrival)
            arrival.release()

    def _hear(self, seat: Seat, arrival: Arrival) -> None:
        message, now = arrival.message, self.clock()
        if seat.detector is not None:
            seat.detector.heard(now)
        match message:
            case Hello():
                if not self.stopping:
                    self.crew.welcome(seat, message)
            case Beat(sent=sent):
                self.post(seat.name, Echo(sent, now))
            case AskLeases(series=series, batch=batch, count=count):
                self._grant(seat, series, batch, count)
            case CommitLeases(leases=leases):
                self.use(leases)
            case ReleaseLeases(leases=leases):
                self.books.release(leases)
                for worker in {lease.worker for lease in leases}:
                    self.supply(worker)
            case RoundDone(generation=generation, number=number, leases=leases):
                if generation == self.group:
                    self.use(self.books.rounds.report(seat.name, number, leases, self.members))
            case ReportEvents(events=events):
                self._journal(events)
            case ProgramFinished(generation=generation):
                if generation == self.generation:
                    seat.running = False
                    self.emit(NodeFinished(now, seat.name))
                    self.supply(seat.name)
            case ProgramFailed(error=error):
                if not self.stopping:  # else the run is over, and what it trained counts
                    self.fail(RunFailed(f"{seat.name}'s program failed:\n{error}"))
            case PeerWentAway(generation=generation):
                if generation == self.generation:  # what to do about the peer is decided, or will be, and told
                    seat.running = False
                    self.supply(seat.name)
            case _:
                self.talks.take(seat.name, message)

    def supply(self, worker: str) -> None:
        """A worker may have got more work; if its program had ended, it starts again."""
        seat = self.crew[worker]
        if seat.running:
            self.post(worker, MoreWork())
        elif self.books.ledger.open(worker):
            self.crew.start(seat)

    def _grant(self, seat: Seat, series: int, batch: int, count: int) -> None:
        if series != seat.series or seat.name not in self.members:
            return
        leases: list[Lease] = []
        while len(leases) < count and (lease := self.books.ledger.lease(seat.name, batch)) is not None:
            leases.append(lease)
        self.post(seat.name, GrantLeases(series, tuple(leases), len(leases) < count))

    def use(self, leases: Sequence[Lease]) -> None:
        """Gradients of these leases are in the model."""
        self.books.use(leases)
        self.judge.check()

    def _journal(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, Sent):
                source, target = (self.crew[name].device for name in (event.source, event.target))
                wide = self._routes.between(source, target).wide_area
                event = Sent(event.t, event.source, event.target, event.message, event.size, event.start, wide)
            self.emit(event)

    def _refused(self, refusal: Refusal) -> None:
        self.emit(Refused(self.clock(), COORDINATOR, refusal.peer, refusal.reason, refusal.count))

    def last_words(self, node: str) -> str:
        """The end of a process's log, if it wrote one."""
        log = self.folder / "logs" / f"{node}.log" if self.folder else None
        text = log.read_text(errors="replace").strip()[-LOG_TAIL:] if log is not None and log.exists() else ""
        return f":\n{text}" if text else ""
