"""Parameter servers: workers push gradients and pull parameters; one rule says who must wait.

A worker may start iteration c only while c - (slowest worker's clock) <= bound. Bound 0 is BSP, infinity is the
asynchronous server, anything between is SSP (Ho et al. 2013). What was pushed becomes one optimiser step, weighted
by samples, just before the next parameters are handed out: with bound 0 that is the mean over all workers (exactly
all-reduce's step), without a bound it is one step per push.

With ``ahead`` (``asp`` only) a worker does not wait for the answer to its push: it computes on while up to so many
answers are on their way, as Pipe-SGD (Li et al. 2018) does for all-reduce. Gradients are that much staler; links and
processors are busy at the same time.

Backup workers (Chen et al. 2016, ``bsp`` only): a step closes when all but ``backups`` workers have pushed for it;
later gradients are dropped and their samples leased again.

With a ``codec`` gradients cross coded (``pushes``); parameters come back whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec

from littoral.errors import InputError
from littoral.learning.codecs import Codec
from littoral.learning.leases import Lease
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan, Server
from littoral.strategies.clocks import Clocks
from littoral.strategies.pushes import Pushes, check_push_codec, push_codec, without_momentum
from littoral.strategies.strategy import Models, Source, check_choice, check_whole
from littoral.worlds.node import Joined, Left, Message, Node, Received

MODES = ("bsp", "ssp", "asp")


class Pull(Message, frozen=True):
    """I am new here: send me the parameters when I may start."""


class Push(Message, frozen=True):
    """My gradient, computed on parameters of ``version``; answer with the next ones when I may go on."""

    version: int
    samples: int
    lease: Lease
    vector: Any


class Finish(Message, frozen=True):
    """I have no work left; do not wait for me."""


class Parameters(Message, frozen=True):
    """The server's part of the vector, after ``version`` updates."""

    version: int
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServer:
    """``servers`` nodes each keep a slice of the vector; ``mode`` and ``bound`` say how far workers may drift."""

    name: ClassVar[str] = "parameter_server"
    models: ClassVar[Models] = "served"

    mode: str = "asp"
    bound: int = 3  # staleness bound of ssp, in iterations
    ahead: int = 0  # of asp: answers a worker does not wait for
    backups: int = 0
    servers: int = 1
    momentum: str = "auto"  # of ssp and asp: auto takes off what asynchrony adds by itself; keep does not
    damping: str = "none"  # step length against staleness tau: none, inverse (1/tau) or sqrt (1/sqrt(1+tau))
    codec: str = "none"  # of gradients; auto: per link, as mild as its rate allows; dgc: momentum stays with workers

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("damping", self.damping, ("none", "inverse", "sqrt"))
        check_choice("momentum", self.momentum, ("auto", "keep"))
        check_push_codec(self.codec)
        check_whole("bound", self.bound)
        check_whole("ahead", self.ahead, most=16)
        check_whole("backups", self.backups)
        check_whole("servers", self.servers, least=1, most=64)
        if self.ahead and self.mode != "asp":
            raise InputError(
                "ahead needs mode asp: the others promise a bound", remedy="set 'mode: asp', or 'ahead: 0'"
            )
        if self.backups and self.mode != "bsp":
            raise InputError("backups need mode bsp", remedy="set 'mode: bsp', or 'backups: 0'")
        if self.backups and self.servers > 1:
            raise InputError("backups need a single server: several could drop different halves of a gradient",
                             remedy="set 'servers: 1', or 'backups: 0'")  # fmt: skip

    @property
    def by_rate(self) -> bool:
        """Whether links differ in what they carry."""
        return self.codec == "auto"

    @property
    def limit(self) -> float:
        """How many iterations a worker may be ahead of the slowest."""
        return {"bsp": 0, "ssp": self.bound, "asp": math.inf}[self.mode]

    def damp(self, staleness: int) -> float:
        """The factor on a step whose gradient is ``staleness`` versions old."""
        if self.damping == "inverse":
            return 1.0 / max(1, staleness)
        return 1.0 / math.sqrt(1 + staleness) if self.damping == "sqrt" else 1.0

    async def worker(self, node: Node) -> None:
        servers, pushes = node.plan.servers, Pushes(self.codec, node)
        for server in servers:
            await node.send(server.name, Pull())
        due, allowed = 1, 0  # answers; before the first there is nothing to compute on
        while True:
            while due > allowed:
                versions = [await self._fetch(node, server) for server in servers]
                due -= 1
            gradient = await node.compute()
            if gradient.lease is None:
                break
            parts = pushes.encode(gradient)
            for server, version in zip(servers, versions, strict=True):
                await node.send(server.name, Push(version, gradient.samples, gradient.lease, parts[server.name]))
            due, allowed = due + 1, self.ahead
        for _ in range(due):  # or they would be taken for the answers to what comes next
            for server in servers:
                await self._fetch(node, server)
        for server in servers:
            await node.send(server.name, Finish())

    async def _fetch(self, node: Node, server: Server) -> int:
        parameters = (await node.receive(Parameters, sender=server.name)).message
        node.model.load(parameters.vector, server.start)
        version: int = parameters.version
        return version

    async def server(self, node: Node) -> None:
        desk = Desk(self, node)
        while True:
            await desk.take(await node.receive(Pull, Push, Finish, Left, Joined))

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """Asynchrony is momentum: about 1 - 1/n of it (Mitliagkas et al. 2016). Ask for the rest only.

        A gradient would then move the model (1 - rest) / (1 - momentum) times less in all. Making up for all of that
        by the learning rate proved too much for stale gradients, for none of it too slow (digits, 4 and 6 workers,
        momentum 0.9): the square root trains well in all of them.
        """
        if self.codec == "dgc" and recipe.optimizer == "sgd":
            return without_momentum(recipe)
        if self.limit == 0 or self.momentum == "keep" or not recipe.momentum or recipe.optimizer != "sgd":
            return recipe
        implicit = 1.0 - 1.0 / (workers * (1 + self.ahead))
        rest = max(0.0, (recipe.momentum - implicit) / (1.0 - implicit))
        lr = recipe.lr * math.sqrt((1.0 - rest) / (1.0 - recipe.momentum))
        return replace(recipe, momentum=rest, lr=lr, nesterov=recipe.nesterov and rest > 0.0)

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        return [Source(node=s.name, start=s.start, stop=s.stop) for s in plan.servers]


class Desk:
    """One server's book-keeping: who is at which clock, who waits, what is not yet applied."""

    def __init__(self, strategy: ParameterServer, node: Node) -> None:
        self.strategy, self.node = strategy, node
        self.version = 0
        self.clocks = Clocks(node.members, strategy.limit)
        self.waiting: dict[str, None] = {}  # in order of arrival
        self.pending: dict[str, Push] = {}
        self._codecs: dict[str, Codec] = {}

    async def take(self, received: Received) -> None:
        """Book one message, then hand out parameters to everyone who may go on."""
        sender, slowest = received.sender, self.clocks.slowest
        match received.message:
            case Push() as push:
                await self._book(sender, push)
            case Pull():
                self.clocks.admit(sender)
                self.waiting[sender] = None
            case Finish():
                self._forget(sender)
            case Left(node=gone):
                self._forget(gone)
                self.pending.pop(gone, None)
            case Joined(node=new):
                self.clocks.admit(new)
        everyone = self.clocks.slowest != slowest or sender not in self.waiting or self.strategy.backups > 0
        await self._serve(list(self.waiting) if everyone else [sender])

    async def _book(self, sender: str, push: Push) -> None:
        self.waiting[sender] = None
        if sender not in self.clocks:  # declared lost, yet alive: it starts again like a new one
            self.clocks.admit(sender)
            await self.node.release([push.lease])
        elif self.strategy.backups and push.version != self.version:
            await self.node.release([push.lease])  # its step is closed: the gradient never counts
        else:
            if sender in self.pending:  # of an earlier life, which nobody waits for
                await self.node.release([self.pending[sender].lease])
            self.pending[sender] = push if self.strategy.codec == "none" else self._decoded(sender, push)
            self.clocks.advance(sender)

    def _decoded(self, sender: str, push: Push) -> Push:
        server = next(server for server in self.node.plan.servers if server.name == self.node.name)
        if sender not in self._codecs:
            self._codecs[sender] = push_codec(self.strategy.codec, self.node, sender, server)
        vector = self._codecs[sender].decode(push.vector, server.stop - server.start)
        return msgspec.structs.replace(push, vector=vector)

    @property
    def _round(self) -> int:
        """Samples that all workers push in the time of one step: together their steps are as long as one for these.

        With steps that grow in proportion to batches that makes no difference; with many workers they do not.
        """
        return sum(self.node.plan.worker(member).batch for member in self.node.members)

    def _forget(self, worker: str) -> None:
        self.clocks.remove(worker)
        self.waiting.pop(worker, None)

    async def _serve(self, candidates: list[str]) -> None:
        ready, closing = self._ready_with_backups() if self.strategy.backups else self._ready(candidates)
        if closing and self.pending:
            await self._apply()
        if not ready:
            return
        snapshot = self.node.model.snapshot()
        for worker in ready:
            del self.waiting[worker]
            await self.node.send(worker, Parameters(self.version, snapshot))

    def _ready(self, candidates: list[str]) -> tuple[list[str], bool]:
        ready = [worker for worker in candidates if self.clocks.may_start(worker)]
        return ready, bool(ready)

    def _ready_with_backups(self) -> tuple[list[str], bool]:
        """A step closes when all but ``backups`` have pushed for it; until then only latecomers are served."""
        if self.pending and len(self.pending) >= len(self.clocks) - self.strategy.backups:
            return list(self.waiting), True
        return [worker for worker in self.waiting if worker not in self.pending], False

    async def _apply(self) -> None:
        pushes = [self.pending[worker] for worker in sorted(self.pending)]
        self.pending.clear()
        accepted = await self.node.commit([push.lease for push in pushes])
        pushes = [push for push, valid in zip(pushes, accepted, strict=True) if valid]
        if not pushes:
            return
        samples = sum(push.samples for push in pushes)
        damp = sum(p.samples * self.strategy.damp(self.version - p.version) for p in pushes) / samples
        mean = self.node.model.mean([(push.vector, push.samples) for push in pushes])
        whole = max(samples, self._round) if self.strategy.limit else samples
        await self.node.update(mean, whole, damp * samples / whole, seen=samples)
        self.version += 1
