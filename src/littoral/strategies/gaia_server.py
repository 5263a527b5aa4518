"""A site's server in Gaia: a parameter server for the site's workers, whose steps are a share of everybody's.

A round ends when the slowest worker ends an iteration: what it changed goes to ``mirrors``, which say when the copy may
be read. A site without workers, or whose workers have no work left, rests: nobody waits for it until one is back.
"""

from __future__ import annotations

from typing import Any

from littoral.learning.leases import Lease
from littoral.strategies.clocks import Clocks
from littoral.strategies.groups import average
from littoral.strategies.mirrors import MirrorBarrier, MirrorClock, Mirrors, MirrorUpdate
from littoral.worlds.node import Joined, Left, Message, Node, Received


class GaiaRead(Message, frozen=True):
    """I am new here: send me the parameters when I may start."""


class GaiaPush(Message, frozen=True):
    """My gradient; answer with the next parameters when I may go on."""

    samples: int
    lease: Lease
    vector: Any


class GaiaFinish(Message, frozen=True):
    """I have no work left; do not wait for me."""


class GaiaParameters(Message, frozen=True):
    """The site's copy after its round ``clock``."""

    clock: int
    vector: Any


HEARD = (GaiaRead, GaiaPush, GaiaFinish, MirrorUpdate, MirrorClock, MirrorBarrier, Left, Joined)


class SiteDesk:
    """One site's server: who of its workers is at which clock, who waits, what is not yet applied."""

    def __init__(self, node: Node, bound: int, mirrors: Mirrors) -> None:
        self._node, self.mirrors = node, mirrors
        site = next(server.site for server in node.plan.servers if server.name == node.name)
        self._here = {worker.name for worker in node.plan.workers if worker.site == site}
        self.clocks = Clocks([member for member in node.members if member in self._here], bound)
        self.waiting: dict[str, None] = {}  # in order of arrival
        self.pending: dict[str, GaiaPush] = {}

    async def open(self) -> None:
        """Find common ground after a rollback; and let nobody wait for a site without workers.

        A checkpoint has the copies, but not what was accumulated or under way between them: copies would differ for
        good. Everyone takes their mean, the model that was evaluated.
        """
        node = self._node
        if node.generation > 1:
            everyone = [server.name for server in node.plan.servers]
            node.model.load(await average(node, everyone, node.model.snapshot()))
        if not self.clocks:
            await self.mirrors.rest()

    async def take(self, received: Received) -> None:
        """Book one message; close the round if that completes it; hand out parameters to everyone who may go on."""
        sender, idle, slowest = received.sender, not self.clocks, self.clocks.slowest
        match received.message:
            case GaiaPush() as push:
                await self._book(sender, push)
            case GaiaRead():
                self.clocks.admit(sender)
                self.waiting[sender] = None
            case GaiaFinish():
                self._forget(sender)
            case Left(node=gone):
                self._forget(gone)
                self.pending.pop(gone, None)
            case Joined(node=new):
                if new in self._here:
                    self.clocks.admit(new)
            case _:
                await self.mirrors.take(received)
        if idle and self.clocks:
            await self.mirrors.wake()
        closed = self.clocks.slowest > slowest
        if self.pending and (closed or self._may_go_on(sender)):
            await self._apply()
        if closed:
            await self.mirrors.close()
        if not idle and not self.clocks:
            await self.mirrors.rest()
        await self._serve([sender] if sender in self.waiting and not closed else list(self.waiting))

    async def _book(self, sender: str, push: GaiaPush) -> None:
        self.waiting[sender] = None
        if sender not in self.clocks:  # declared lost, yet alive: it starts again like a new one
            self.clocks.admit(sender)
            await self._node.release([push.lease])
            return
        if sender in self.pending:  # of an earlier life, which nobody waits for
            await self._node.release([self.pending[sender].lease])
        self.pending[sender] = push
        self.clocks.advance(sender)

    def _forget(self, worker: str) -> None:
        self.clocks.remove(worker)
        self.waiting.pop(worker, None)

    def _may_go_on(self, worker: str) -> bool:
        return worker in self.pending and self.clocks.may_start(worker)

    async def _apply(self) -> None:
        """One step from all that was pushed, as long as its share of everybody's samples."""
        node = self._node
        pushes = [self.pending[worker] for worker in sorted(self.pending)]
        self.pending.clear()
        accepted = await node.commit([push.lease for push in pushes])
        pushes = [push for push, valid in zip(pushes, accepted, strict=True) if valid]
        if not pushes:
            return
        samples = sum(push.samples for push in pushes)
        total = max(samples, sum(node.plan.worker(member).batch for member in node.members))
        mean = node.model.mean([(push.vector, push.samples) for push in pushes])
        before = node.model.snapshot()
        await node.update(self._shared_out(mean, samples / total), total, samples / total)
        self.mirrors.move(node.model.vector - before)

    def _shared_out(self, mean: Any, share: float) -> Any:
        """Carried statistics move at rate one, however long the step: only a share of that is this site's."""
        first = self._node.model.trained
        if first == len(mean):
            return mean
        scaled = mean.clone()
        scaled[first:] = scaled[first:] * share
        return scaled

    async def _serve(self, candidates: list[str]) -> None:
        model = self._node.model
        ready = [worker for worker in candidates if self.clocks.may_start(worker)]
        if not ready or not self.mirrors.readable(0, len(model.vector)):
            return
        snapshot = model.snapshot()
        for worker in ready:
            del self.waiting[worker]
            await self._node.send(worker, GaiaParameters(self.mirrors.clock, snapshot))
