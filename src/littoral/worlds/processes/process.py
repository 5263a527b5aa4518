"""The life of one node's process: say hello, beat, do what the coordinator says, end when it says so."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from littoral.events import Event, Refused, Sent
from littoral.strategies.strategy import REGISTRY, make_strategy
from littoral.worlds.node import Joined, Left, Message, PeerLost
from littoral.worlds.processes import control, exchange
from littoral.worlds.processes import store as store_kinds
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.clock import RunClock
from littoral.worlds.processes.control import (
    COORDINATOR,
    AskState,
    Beat,
    ClockZero,
    Echo,
    EndRun,
    FenceWorker,
    GrantLeases,
    HaltProgram,
    Hello,
    LoadState,
    MemberJoined,
    MemberLeft,
    MoreWork,
    PeerWentAway,
    ProgramFailed,
    ProgramFinished,
    ProgramHalted,
    ReportEvents,
    Roster,
    SetBatch,
    StartProgram,
    StateLoaded,
    StatePart,
    StateTaken,
    WorkerFenced,
)
from littoral.worlds.processes.models import build
from littoral.worlds.processes.node import ProcessNode
from littoral.worlds.wire.endpoint import Arrival, Endpoint, Limits, Peer, PeerGone, Refusal
from littoral.worlds.wire.frames import Codec

Take = Callable[[Arrival], Awaitable[None]]
BEAT_S = 0.2
REPORT_S = 0.1  # events travel in bundles


def codec_for(strategy: str) -> Codec:
    """What may cross the wire in a run with this strategy."""
    module = importlib.import_module(REGISTRY[strategy].partition(":")[0])
    kinds = [*control.kinds_in(module), *control.kinds_in(exchange), *control.kinds_in(store_kinds), *control.KINDS]
    return Codec(kinds)


class Link:
    """A process's connection to the run: its endpoint, the run's clock, an orderly line to the coordinator."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot
        self.clock = RunClock(boot.clock_zero)
        limits = Limits(largest_message=boot.largest_message)
        self.endpoint = Endpoint(
            boot.node,
            boot.keys,
            codec_for(boot.plan.strategy),
            limits=limits,
            on_refusal=self._refused,
            clock=self.clock,
        )
        self._events: list[Event] = []
        self.on_roster: Callable[[tuple[Peer, ...]], None] = lambda peers: None
        self.over = asyncio.Event()

    def post(self, message: Message) -> None:
        """Tell the coordinator, in order."""
        self.endpoint.post(COORDINATOR, message)

    def report(self, event: Event) -> None:
        """Tell the coordinator some time soon what happened."""
        self._events.append(event)

    def _refused(self, refusal: Refusal) -> None:
        self.report(Refused(self.clock(), self.boot.node, refusal.peer, refusal.reason, refusal.count))

    async def run(self, take: Take, before_the_end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Be part of the run until it is over; ``take`` gets what is not handled here."""
        address = await self.endpoint.open(self.boot.place.address)
        for peer in (self.boot.coordinator, *self.boot.peers):
            self.endpoint.meet(peer)
        self.post(Hello(address, os.getpid()))
        tasks = [asyncio.ensure_future(each) for each in (self._beat(), self._bundle(), self._read(take))]
        over = asyncio.ensure_future(self.over.wait())
        try:
            done, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {over}:
                task.result()
            if before_the_end is not None:
                await before_the_end()
            self._flush_events()
            await self.endpoint.flush(1.0)
        finally:
            for task in (over, *tasks):
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            await self.endpoint.close()

    async def _beat(self) -> None:
        while True:
            rates = {
                n: t.rate_bytes_per_s for n, t in self.endpoint.traffic().items() if t.rate_bytes_per_s is not None
            }
            self.post(Beat(time.monotonic(), rates))
            await asyncio.sleep(BEAT_S)

    async def _bundle(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._flush_events()

    def _flush_events(self) -> None:
        if self._events:
            events, self._events = tuple(self._events), []
            self.post(ReportEvents(events))  # type: ignore[arg-type]

    async def _read(self, take: Take) -> None:
        while True:
            arrival = await self.endpoint.receive()
            match arrival.message:
                case Echo(sent=sent, now=now):
                    self.clock.learn(sent, now)
                case ClockZero(shift=shift):
                    self.clock.shift(shift)
                case Roster(peers=peers):
                    for peer in peers:
                        if peer.name != self.boot.node:
                            self.endpoint.meet(peer)
                    self.on_roster(peers)
                case EndRun():
                    self.over.set()
                case _:
                    await take(arrival)
                    continue
            arrival.release()


class Trainee:
    """A worker's or server's process."""

    def __init__(self, boot: Boot) -> None:
        self._boot, self._link = boot, Link(boot)
        self._strategy = make_strategy(boot.plan.strategy, boot.plan.parameters)
        self._model, self._pantry = build(boot, self._strategy, self._send_to, self._link.report, self._link.clock)
        self.node = ProcessNode(
            boot.node, boot.plan, self._model, self._link.endpoint, clock=self._link.clock, post=self._link.post,
            report=self._link.report, supply=self._pantry.ensure if self._pantry else None, seed=boot.seed,
        )  # fmt: skip
        if self._pantry is not None:
            store, pantry = boot.plan.worker(boot.node).store, self._pantry
            self._link.on_roster = lambda peers: (
                pantry.resume() if any(p.name == store and p.address for p in peers) else None
            )
        self._loading: dict[str, Any] = {}
        self._has_model = False
        self._sending: set[asyncio.Task[None]] = set()

    async def _send_to(self, target: str, message: Message) -> None:
        await self._link.endpoint.send(target, message)

    async def run(self) -> None:
        """Until the run is over."""
        try:
            await self._link.run(self._take)
        finally:
            await self.node.halt()
            for task in self._sending:
                task.cancel()
            self.node.close()

    async def _take(self, arrival: Arrival) -> None:
        sender, message = arrival.sender, arrival.message
        if sender != COORDINATOR and not isinstance(message, store_kinds.KINDS):
            self._link.report(
                Sent(
                    arrival.arrived_at,
                    sender,
                    self.node.name,
                    type(message).__name__,
                    arrival.size,
                    arrival.sent_at,
                    False,
                )
            )
            self.node.take(arrival)
            return
        if self._pantry is not None and isinstance(message, store_kinds.KINDS):
            await self._pantry.take(sender, message)
        elif sender == COORDINATOR:
            await self._obey(message)
        arrival.release()

    async def _obey(self, message: Message) -> None:
        node, post = self.node, self._link.post
        match message:
            case StartProgram():
                await self._start(message)
            case HaltProgram(generation=generation):
                await node.halt()
                post(ProgramHalted(generation, node.rounds))
            case GrantLeases():
                node.leasing.granted(message)
            case MoreWork():
                node.leasing.more()
            case SetBatch(batch=batch):
                node.leasing.batch = batch
            case MemberLeft(node=gone, members=members):
                node.members = members
                node.lose(gone)
                node.tell(gone, Left(gone))
            case MemberJoined(node=new, members=members):
                node.members = members
                node.absent.discard(new)
                node.tell(new, Joined(new))
            case FenceWorker(request=request, worker=worker, below=below):
                node.fence(worker, below)
                await node.settled()
                post(WorkerFenced(request))
            case AskState(request=request, whole=whole):
                await self._give_state(request, whole)
            case LoadState():
                await self._load(message)

    async def _start(self, message: StartProgram) -> None:
        node = self.node
        await node.halt()
        if message.series != node.leasing.series:
            node.drop_work()
        node.leasing.batch = message.batch
        node.leasing.begin(message.series)
        node.begin(message.generation, message.members, message.absent, message.rounds)
        node.spawn(self._live(message.generation))

    async def _live(self, generation: int) -> None:
        is_server = any(server.name == self.node.name for server in self._boot.plan.servers)
        program = self._strategy.server if is_server else self._strategy.worker
        post = self._link.post
        try:
            if self._pantry is not None:
                await self._stock_up()
            await program(self.node)
            post(ProgramFinished(generation))
        except (PeerLost, PeerGone):
            post(PeerWentAway(generation))
        except Exception:
            post(ProgramFailed(traceback.format_exc(limit=-4)))
        finally:
            self.node.settle()

    async def _stock_up(self) -> None:
        """Get the model that everyone begins with, and the own shard, from the store; what is here already stays."""
        assert self._pantry is not None
        vector = await self._pantry.model(len(self.node.model.vector))
        if not self._has_model:
            self.node.model.load(vector)
            self._has_model = True
        await self._pantry.prefetch(self.node.name)

    async def _give_state(self, request: int, whole: bool) -> None:
        await self.node.settled()
        state = {"vector": self.node.model.snapshot()}
        if whole:
            live = self._model.state()
            state |= {name: tensor.clone() for name, tensor in live.items() if name != "vector"}
        self._link.post(StateTaken(request, self.node.rounds))
        task = asyncio.ensure_future(self._send_state(request, state))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_state(self, request: int, state: dict[str, Any]) -> None:
        names = list(state)
        for name in names:
            await self._link.endpoint.send(COORDINATOR, StatePart(request, name, name == names[-1], state[name]))

    async def _load(self, message: LoadState) -> None:
        self._loading[message.name] = message.vector
        if message.last:
            state, self._loading = self._loading, {}
            self._has_model = True
            self.node.forget_work()
            await self.node.in_thread(self._model.restore, state)
            self._link.post(StateLoaded(message.request))


class StoreKeeper:
    """A store's process."""

    def __init__(self, boot: Boot) -> None:
        from littoral.worlds.processes.models import desk

        self._link = Link(boot)
        self._desk = desk(boot, self._send_to)

    async def _send_to(self, target: str, message: Message) -> None:
        await self._link.endpoint.send(target, message)

    async def run(self) -> None:
        """Until the run is over."""
        answering: set[asyncio.Task[None]] = set()

        async def take(arrival: Arrival) -> None:
            # Beside the reading, since a slow worker must not keep the others from asking.
            task = asyncio.ensure_future(self._answer(arrival))
            answering.add(task)
            task.add_done_callback(answering.discard)

        try:
            await self._link.run(take)
        finally:
            for task in answering:
                task.cancel()

    async def _answer(self, arrival: Arrival) -> None:
        try:
            await self._desk.take(arrival.sender, arrival.message)
        except PeerGone:
            pass  # who asked is no more
        finally:
            arrival.release()


class AppHost:
    """A background app's process."""

    def __init__(self, boot: Boot) -> None:
        self._boot, self._link = boot, Link(boot)

    async def run(self) -> None:
        """From the run's beginning until it is over."""
        from littoral.apps.pacing import run_app

        boot, link, working = self._boot, self._link, list[asyncio.Task[None]]()

        async def take(arrival: Arrival) -> None:
            arrival.release()
            if isinstance(arrival.message, StartProgram) and not working:
                assert boot.app is not None
                device = boot.node.partition("@")[2]
                app = run_app(boot.app, device, link.report, link.clock, seed=boot.seed, cores=boot.cores)
                working.append(asyncio.ensure_future(app))

        async def account() -> None:
            for task in working:
                task.cancel()
            for outcome in await asyncio.gather(*working, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome

        await link.run(take, before_the_end=account)


def main(boot: Boot) -> None:
    """Run one node in this process."""
    from littoral.worlds.lab.places import enter

    enter(boot.place)
    for path in reversed(boot.paths):
        if path not in sys.path:
            sys.path.insert(0, path)

    async def live() -> None:
        hosts: dict[str, Any] = {"worker": Trainee, "server": Trainee, "store": StoreKeeper, "app": AppHost}
        await hosts[boot.kind](boot).run()

    asyncio.run(live())
