"""Gaia (Hsieh et al. 2017): a parameter server per site, and between sites only what changes a parameter much.

Inside a site workers push gradients to its server and read parameters in lock-step (or ``bound`` iterations apart).
Every server holds a copy of the whole model. It adds what its own workers learned at once, and sends the others an
accumulated change when that is more than ``threshold`` of the parameter's value: ``gaia_server`` has the near side of
a server, ``mirrors`` the far one. It serves reads while it is at most ``ahead`` rounds ahead of the slowest site.

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
from typing import ClassVar

from littoral.errors import InputError
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan, Server
from littoral.strategies.gaia_server import HEARD, GaiaFinish, GaiaParameters, GaiaPush, GaiaRead, SiteDesk
from littoral.strategies.mirrors import Mirrors, Terms
from littoral.strategies.overlay import Overlay, joined
from littoral.strategies.strategy import Models, Source, check_choice, check_number, check_whole
from littoral.worlds.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaia:
    """A copy of the model per site; significant changes cross between them."""

    name: ClassVar[str] = "gaia"
    models: ClassVar[Models] = "served"
    per_site: ClassVar[bool] = True
    by_rate: ClassVar[bool] = True

    threshold: float = 0.01  # of |change / parameter|, above which a change is sent; in the first round
    decay: str = "none"  # of the threshold: sqrt divides it by the square root of the round, none keeps it
    floor: float = (
        1e-6  # smaller parameters count as this large; without it every change of a parameter near zero is significant
    )
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
        desk = self.desk(node)
        await desk.open()
        while True:
            await desk.take(await node.receive(*HEARD))

    def desk(self, node: Node) -> SiteDesk:
        """What a server keeps. An update is late when it takes longer than the longest step of the plan."""
        terms = Terms(
            threshold=self.threshold_of, ahead=self.ahead, floor=self.floor,
            density=self.density if self.threshold else 1.0,
            timely_s=max(worker.batch / worker.samples_per_s for worker in node.plan.workers),
        )  # fmt: skip
        return SiteDesk(node, self.bound, Mirrors(node, self.overlay(node.plan), terms))

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device."""
        return recipe

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """Every server has a copy of its own; their mean is the run's model."""
        return [Source(node=server.name, start=0, stop=length, own=True) for server in plan.servers]


def site_server(plan: Plan, site: str) -> Server:
    """The server of a site."""
    return next(server for server in plan.servers if server.site == site)
