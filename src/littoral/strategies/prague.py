"""Prague (Luo et al. 2020): after each local step, average models inside a small group: Partial All-Reduce.

Averaging inside a group leaves the mean of all models as it is and needs no locked pairs of neighbours. Who averages
with whom is for the Group Generator to say, so that groups seldom get into each other's way and the fast do not wait
for the slow. It only deals in small messages, and lives beside the first member's worker: when that one is
lost, the group begins again and the next first member has it.

Not modelled: communicators and their cost. Momentum stays where it is; only models (with the statistics of norms) are
averaged. What the paper leaves open was chosen so that its invariants hold: see ``group_generator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from littoral.errors import InputError
from littoral.strategies.group_generator import ArrivalGroups, Generator, Group, RandomGroups, SmartGroups
from littoral.strategies.group_schedule import static_groups
from littoral.strategies.groups import average
from littoral.strategies.peers import Peers, rest, sites, step
from littoral.strategies.strategy import check_choice, check_number, check_whole
from littoral.worlds.node import Message, Node


class PragueRequest(Message, frozen=True):
    """I come to the end of an iteration and want a group."""


class PragueGroup(Message, frozen=True):
    """A group with you in it begins; it satisfies the requests of those it ``answers``."""

    number: int
    members: tuple[str, ...]
    answers: tuple[str, ...]


class PragueDone(Message, frozen=True):
    """I have this group's mean."""

    number: int


class PraguePing(Message, frozen=True):
    """Answered at once, to know how long an answer takes."""


class PraguePong(Message, frozen=True):
    """The answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prague(Peers):
    """Step, ask for a group, take its mean, again.

    Members of a group wait for its slowest, so work is planned as for lock-step: ``limit`` stays 0.
    """

    name: ClassVar[str] = "prague"

    generator: str = "smart"  # smart, random, static or arrival
    group_size: int = 3  # members of a group at most (inter-intra: a site's own group has them all)
    slow_filter: int = 4  # smart: who is so many iterations behind is left out of the groups of faster ones; 0: nobody
    inter_intra: bool | str = "auto"  # smart, static: groups of sites' heads and inside sites, in turn
    wait_s: float = 0.05  # arrival: how long the first waits for others to be ready
    prefetch: bool = True  # ask for the next group while computing, a round trip before it is wanted

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("generator", self.generator, ("smart", "random", "static", "arrival"))
        check_whole("group_size", self.group_size, least=2)
        check_whole("slow_filter", self.slow_filter)
        check_number("wait_s", self.wait_s)
        if not isinstance(self.inter_intra, bool):
            check_choice("inter_intra", self.inter_intra, ("auto", "on", "off"))
        if not isinstance(self.prefetch, bool):
            raise InputError(f"prefetch is {self.prefetch!r}", remedy="give true or false")

    async def worker(self, node: Node) -> None:
        if self.generator == "static":
            await self._follow_schedule(node)
        host = node.members[0]
        if node.name == host:
            node.spawn(self._generate(node))
        asking = _Asking(node, host, await _round_trip(node, host) if self.prefetch else 0.0)
        while True:
            asking.begin()
            if not await step(node, await node.compute(), self.boost):
                await rest(node)
            await asking.end()
            while True:
                group: PragueGroup = (await node.receive(PragueGroup)).message
                await self._reduce(node, group.members, group.number)
                await node.send(host, PragueDone(group.number))
                if node.name in group.answers:
                    break

    async def _follow_schedule(self, node: Node) -> None:
        """Without a generator, since everybody knows everybody's groups."""
        teams = list(sites(node).values()) if self._layered(node) else [node.members]
        number = 0
        while True:
            if not await step(node, await node.compute(), self.boost):
                await rest(node)
            groups = static_groups(teams, self.group_size, number)
            await self._reduce(node, next(tuple(group) for group in groups if node.name in group), number)
            number += 1

    async def _reduce(self, node: Node, group: tuple[str, ...], number: int) -> None:
        node.model.load(await average(node, group, node.model.snapshot(), number=number))

    async def _generate(self, node: Node) -> None:
        """Beside the first member's worker: hear requests, tell groups."""
        generator = self._generator(node)
        ticket = 0
        while True:
            received = await node.receive(PragueRequest, PragueDone, PraguePing)
            match received.message:
                case PragueRequest():
                    groups = generator.request(received.sender)
                case PragueDone(number=number):
                    groups = generator.done(received.sender, number)
                case _:
                    groups = []
                    await node.send(received.sender, PraguePong())
            await _tell(node, groups)
            if isinstance(generator, ArrivalGroups) and generator.ready and generator.ticket != ticket:
                ticket = generator.ticket
                node.spawn(self._expire(node, generator, ticket))

    async def _expire(self, node: Node, generator: ArrivalGroups, ticket: int) -> None:
        await node.sleep(self.wait_s)
        await _tell(node, generator.expire(ticket))

    def _generator(self, node: Node) -> Generator:
        dice = node.random("groups")
        if self.generator == "random":
            return RandomGroups(node.members, self.group_size, dice)
        if self.generator == "arrival":
            return ArrivalGroups(node.members, self.group_size, dice)
        layered = self._layered(node)
        return SmartGroups(sites(node), self.group_size, dice, threshold=self.slow_filter, layered=layered)

    def _layered(self, node: Node) -> bool:
        """By itself where there are several sites, and one with somebody to tell what its head learnt."""
        if self.inter_intra == "auto":
            return 1 < len(sites(node)) < len(node.members)
        return self.inter_intra in (True, "on")


class _Asking:
    """Asks for a group once per iteration: as early as its answer takes, if iterations go on to last as they do."""

    def __init__(self, node: Node, host: str, lead_s: float) -> None:
        self._node, self._host, self._lead_s = node, host, lead_s
        self._iteration, self._asked = 0, 0
        self._began, self._lasted = 0.0, 0.0

    def begin(self) -> None:
        """An iteration begins."""
        self._iteration, self._began = self._iteration + 1, self._node.now
        if self._lead_s and self._lasted:
            self._node.spawn(self._early(self._iteration, max(0.0, self._lasted - self._lead_s)))

    async def end(self) -> None:
        """The time has come to average."""
        self._lasted = self._node.now - self._began
        await self._ask(self._iteration)

    async def _early(self, iteration: int, seconds: float) -> None:
        await self._node.sleep(seconds)
        await self._ask(iteration)

    async def _ask(self, iteration: int) -> None:
        if self._asked < iteration == self._iteration:
            self._asked = iteration
            await self._node.send(self._host, PragueRequest())


async def _round_trip(node: Node, host: str) -> float:
    """Seconds that an answer takes; the first of two also makes connections, and finds the host not yet there."""
    began = 0.0
    for _ in range(2):
        began = node.now
        await node.send(host, PraguePing())
        await node.receive(PraguePong)
    return node.now - began


async def _tell(node: Node, groups: list[Group]) -> None:
    for group in groups:
        for member in group.members:
            await node.send(member, PragueGroup(group.number, group.members, group.answers))
