"""Gaia (Hsieh et al. 2017): a parameter server per site, and between sites only what changes a parameter much.

Inside a site workers push gradients to its server and read parameters in lock-step (or ``bound`` iterations apart).
Every server holds a copy of the whole model. It adds what its own workers learned at once, and sends the others an
accumulated change when that is more than ``threshold`` of the parameter's value: ``mirrors`` has this part. A server
serves reads while it is at most ``ahead`` rounds ahead of the slowest other site.

Copies add what sites did, they do not average it. So a site moves its copy by its samples' share of the step that all
samples of a round deserve together, lr(B) * samples / B: the sum over sites is the synchronous step. B is planned,
the sum of all members' batches, for nobody knows what others compute in the same round; where steps grow in
proportion to batches that makes no difference. Statistics that are carried along (batch norms) are shared out alike.

With threshold 0 and ``ahead`` 0 a read has all of its round and the rounds before: synchronous SGD, except that with
three sites or more it may have a next round's changes too, which are added as they come. A huge threshold leaves
sites alone. Momentum and moments stay where they are. Not here: thresholds that follow a bandwidth budget, or differ
by layer; periodic full exchanges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.learning.leases import Lease
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan, Server
from littoral.strategies.clocks import Clocks
from littoral.strategies.groups import average
from littoral.strategies.mirrors import MirrorBarrier, MirrorClock, Mirrors, MirrorUpdate, Overlay, Terms, joined
from littoral.strategies.strategy import Models, Source, check_choice, check_number, check_whole
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaia:
    """A copy of the model per site; significant changes cross between them."""

    name: ClassVar[str] = "gaia"
    models: ClassVar[Models] = "served"
    per_site: ClassVar[bool] = True
    by_rate: ClassVar[bool] = True

    threshold: float = 0.01  # of |change / parameter|, above which a change is sent; in the first round
    decay: str = "sqrt"  # of the threshold: sqrt divides it by the square root of the round, none keeps it
    floor: float = 1e-6  # smaller parameters count as this large; without it hardly any change of them can wait
    ahead: int = 0  # rounds that a site may lead the slowest other by
    bound: int = 0  # iterations that a site's workers may be apart
    hubs: int = 0  # groups of sites to make by link rates, each with a hub; 0: everybody mirrors with everybody
    groups: Sequence[Sequence[str]] = ()  # instead: groups of sites by name, the first of each its hub
    density: float = 0.05  # share of values assumed significant in timing-only runs; the paper saw less

    def __post_init__(self) -> None:
        check_number("threshold", self.threshold)
        check_choice("decay", self.decay, ("sqrt", "none"))
        check_number("floor", self.floor)
        check_number("density", self.density, least=1e-9, most=1.0)
        check_whole("ahead", self.ahead)
        check_whole("bound", self.bound)
        check_whole("hubs", self.hubs)
        self._check_groups()

    def _check_groups(self) -> None:
        remedy = "give lists of sites, as in [[virginia, oregon], [tokyo, seoul]], each site in one of them"
        lists = (list, tuple)
        if not isinstance(self.groups, lists) or not all(isinstance(each, lists) and each for each in self.groups):
            raise InputError(f"groups is {self.groups!r}", remedy=remedy)
        named = [site for group in self.groups for site in group]
        if not all(isinstance(site, str) for site in named) or len(set(named)) < len(named):
            raise InputError(f"groups is {self.groups!r}", remedy=remedy)
        if self.groups and self.hubs:
            raise InputError("both hubs and groups", remedy="give groups, or their number as hubs")

    @property
    def limit(self) -> float:
        """How many iterations a worker may be ahead of the slowest."""
        return self.bound + self.ahead

    def threshold_of(self, clock: int) -> float:
        """The threshold of a round, the same at every site."""
        return self.threshold / math.sqrt(clock) if self.decay == "sqrt" else self.threshold

    def overlay(self, plan: Plan) -> Overlay:
        """Which servers mirror with which. A site that no group names is one of its own."""
        name_of = {server.site: server.name for server in plan.servers}
        if self.groups:
            named = [site for group in self.groups for site in group]
            groups = [*self.groups, *([site] for site in name_of if site not in named)]
            servers = [tuple(name_of[site] for site in group if site in name_of) for group in groups]
            return Overlay(groups=tuple(group for group in servers if group))
        names = tuple(name_of.values())
        return joined(names, plan.rates, self.hubs) if self.hubs > 1 else Overlay(groups=(names,))

    async def worker(self, node: Node) -> None:
        server = site_server(node.plan, node.plan.worker(node.name).site).name
        await node.send(server, GaiaRead())
        while True:
            parameters = (await node.receive(GaiaParameters, sender=server)).message
            node.model.load(parameters.vector)
            gradient = await node.compute()
            if gradient.lease is None:
                break
            await node.send(server, GaiaPush(gradient.samples, gradient.lease, gradient.vector))
        await node.send(server, GaiaFinish())

    async def server(self, node: Node) -> None:
        site = SiteDesk(self, node)
        await site.open()
        while True:
            await site.take(await node.receive(*HEARD))

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device."""
        return recipe

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """Every server has a copy of its own; their mean is the run's model."""
        return [Source(node=server.name, start=0, stop=length, own=True) for server in plan.servers]


HEARD = (GaiaRead, GaiaPush, GaiaFinish, MirrorUpdate, MirrorClock, MirrorBarrier, Left, Joined)


def site_server(plan: Plan, site: str) -> Server:
    """The server of a site."""
    return next(server for server in plan.servers if server.site == site)


class SiteDesk:
    """One site's server: who of its workers is at which clock, who waits, what is not yet applied."""

    def __init__(self, strategy: Gaia, node: Node) -> None:
        self._node = node
        site = next(server.site for server in node.plan.servers if server.name == node.name)
        self._here = {worker.name for worker in node.plan.workers if worker.site == site}
        self.clocks = Clocks([member for member in node.members if member in self._here], strategy.bound)
        self.waiting: dict[str, None] = {}  # in order of arrival
        self.pending: dict[str, GaiaPush] = {}
        terms = Terms(
            threshold=strategy.threshold_of, ahead=strategy.ahead, floor=strategy.floor,
            density=strategy.density if strategy.threshold else 1.0,
            timely_s=max((w.batch / w.samples_per_s for w in node.plan.workers), default=0.0),
        )  # fmt: skip
        self.mirrors = Mirrors(node, strategy.overlay(node.plan), terms)

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
