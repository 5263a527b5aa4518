"""A worker's or server's process: it does what the coordinator says and runs the strategy's program."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from littoral.events import Sent
from littoral.strategies.strategy import make_strategy
from littoral.worlds.node import Joined, Left, Message, PeerLost
from littoral.worlds.processes import store as store_kinds
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.control import (
    COORDINATOR,
    AskState,
    FenceWorker,
    GrantLeases,
    HaltProgram,
    LoadState,
    MemberJoined,
    MemberLeft,
    MoreWork,
    PeerWentAway,
    ProgramFailed,
    ProgramFinished,
    ProgramHalted,
    SetBatch,
    StartProgram,
    StateLoaded,
    StatePart,
    StateTaken,
    WorkerFenced,
)
from littoral.worlds.processes.line import Line
from littoral.worlds.processes.models import build
from littoral.worlds.processes.node import ProcessNode
from littoral.worlds.wire.endpoint import Arrival, PeerGone


class Trainee:
    """A worker's or server's process."""

    def __init__(self, boot: Boot) -> None:
        self._boot, self._line = boot, Line(boot)
        self._strategy = make_strategy(boot.plan.strategy, boot.plan.parameters)
        self._model, self._pantry = build(boot, self._strategy, self._send_to, self._line.report, self._line.clock)
        self.node = ProcessNode(
            boot.node, boot.plan, self._model, self._line.endpoint, clock=self._line.clock, post=self._line.post,
            report=self._line.report, supply=self._pantry.ensure if self._pantry else None, seed=boot.seed,
        )  # fmt: skip
        if self._pantry is not None:
            store, pantry = boot.plan.worker(boot.node).store, self._pantry
            self._line.on_roster = lambda peers: (
                pantry.resume() if any(p.name == store and p.address for p in peers) else None
            )
        self._loading: dict[str, Any] = {}
        self._has_model = False
        self._sending: set[asyncio.Task[None]] = set()

    async def _send_to(self, target: str, message: Message) -> None:
        await self._line.endpoint.send(target, message)

    async def run(self) -> None:
        """Until the run is over."""
        try:
            await self._line.run(self._take)
        finally:
            await self.node.halt()
            for task in self._sending:
                task.cancel()
            self.node.close()

    async def _take(self, arrival: Arrival) -> None:
        sender, message = arrival.sender, arrival.message
        if sender != COORDINATOR and not isinstance(message, store_kinds.KINDS):
            self._line.report(
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
            try:
                await self._obey(message)
            except Exception:  # or a process would die of the same thing again and again
                self._line.post(ProgramFailed(traceback.format_exc(limit=-4)))
        arrival.release()

    async def _obey(self, message: Message) -> None:
        node, post = self.node, self._line.post
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
        post = self._line.post
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
        self._line.post(StateTaken(request, self.node.rounds))
        task = asyncio.ensure_future(self._send_state(request, state))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_state(self, request: int, state: dict[str, Any]) -> None:
        names = list(state)
        for name in names:
            await self._line.endpoint.send(COORDINATOR, StatePart(request, name, name == names[-1], state[name]))

    async def _load(self, message: LoadState) -> None:
        self._loading[message.name] = message.vector
        if message.last:
            state, self._loading = self._loading, {}
            self._has_model = True
            self.node.forget_work()
            await self.node.in_thread(self._model.restore, state)
            self._line.post(StateLoaded(message.request))
