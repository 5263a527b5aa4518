"""DLion (Hong and Chandra, HPDC 2021): peers that send each other as much of their gradients as each link can carry.

For micro-clouds, whose computers and links differ and change. Every worker has a replica and

- takes a share of a growing global batch that fits its measured speed (``batching``),
- sends every peer the largest elements of its gradient, as many as the link carries while it computes (``links``),
- applies its own gradient in full and whatever arrived of the others' in one step; what is missing counts as zero,
- now and then moves towards the weights of the worker with the lowest training loss (direct knowledge transfer).

The paper's constants are from memory, so all are parameters. What is different from it, and why, is said in
docs/strategies/dlion.md.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.learning.task import Recipe
from littoral.strategies.batching import Division, Growth, Pace, Power
from littoral.strategies.groups import average
from littoral.strategies.links import Links
from littoral.strategies.peers import Peers, others, rest
from littoral.strategies.strategy import check_choice, check_number, check_whole
from littoral.worlds.node import Gradient, Message, Node, Received

_SMOOTH = 0.3  # weight of the latest iteration's duration
_SWITCH = {"on": True, "off": False}


class DLionGradient(Message, frozen=True):
    """What a link could carry of a gradient: elements within ``percent`` of their tensor's largest."""

    round: int
    samples: int  # of the gradient
    total: int  # of all workers in this round
    idle: bool  # I have no work: do not wait for me
    percent: float
    vector: Any


class DLionPower(Message, frozen=True):
    """What iterations cost me, for the division of batches ``number``."""

    number: int
    per_sample: float
    fixed: float
    most: int


class DLionLoss(Message, frozen=True):
    """The mean of my last losses, for knowledge transfer ``number``."""

    number: int
    loss: float


class DLionAsk(Message, frozen=True):
    """You are the best: send me your weights."""


class DLionWeights(Message, frozen=True):
    """My weights."""

    vector: Any


_KINDS = (DLionGradient, DLionPower, DLionLoss, DLionAsk, DLionWeights)


@dataclass(frozen=True, slots=True, kw_only=True)
class DLion(Peers):
    """Partial gradients per link, batches by speed, knowledge from the best."""

    name: ClassVar[str] = "dlion"
    by_rate: ClassVar[bool] = True

    sync: str = "ssp"  # bsp, ssp or asp
    bound: int = 5  # of ssp: iterations that a worker may be ahead of the slowest
    weighting: str = "unbiased"  # of a gradient, LBS_k / GBS; published: LBS_k / (n LBS_j)
    floor: float = 1.0  # N that even the poorest link carries, in percent
    residual: bool = False  # whether a link is owed what it had no time for
    balance: bool = True  # whether batches follow the speeds that are measured
    growth: bool = True  # whether the global batch grows
    period: int = 20  # iterations between two divisions of the global batch
    warmup_step: int = 32  # samples by which it grows at first
    speedup: float = 1.5  # factor by which it grows later
    slow_until: float = 0.01  # share of the data at which later begins
    grow_until: float = 0.10  # share of the data at which it ends
    dkt_period: int = 100  # iterations between two knowledge transfers
    dkt_losses: int = 10  # latest losses that count
    dkt_pull: float = 0.75  # how far to move towards the best; 0: no transfer, 1: copy it

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("sync", self.sync, ("bsp", "ssp", "asp"))
        check_choice("weighting", self.weighting, ("unbiased", "published"))
        check_whole("bound", self.bound)
        for switch in ("residual", "balance", "growth"):
            object.__setattr__(self, switch, _switched(switch, getattr(self, switch)))
        check_number("floor", self.floor, least=1e-6, most=100.0)
        check_whole("period", self.period, least=1)
        check_whole("warmup_step", self.warmup_step, least=1)
        check_number("speedup", self.speedup, least=1.0, most=100.0)
        check_number("grow_until", self.grow_until, most=1.0)
        check_number("slow_until", self.slow_until, most=self.grow_until)
        check_whole("dkt_period", self.dkt_period, least=1)
        check_whole("dkt_losses", self.dkt_losses, least=1)
        check_number("dkt_pull", self.dkt_pull, most=1.0)
        if math.isfinite(self.limit) and self.period <= self.limit:
            remedy = "give a longer period, or a smaller bound"
            raise InputError(f"period {self.period} is not above the bound {self.limit:g}", remedy=remedy)

    @property
    def limit(self) -> float:  # type: ignore[override]
        """How many iterations a worker may be ahead of the slowest."""
        return {"bsp": 0, "ssp": self.bound, "asp": math.inf}[self.sync]

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device: replicas take everybody's steps, not only their own."""
        return recipe

    async def worker(self, node: Node) -> None:
        me = _Member(self, node)
        if node.generation > 1:  # the models differ, and steps were lost on their way
            node.model.load(await average(node, node.members, node.model.snapshot()))
        while True:
            gradient = await me.compute()
            await me.tell(gradient)
            await me.wait()
            await me.step(gradient)
            await me.transfer()

    def division(self, node: Node) -> Division:
        """The planned batches, which grow with the global batch and follow the speeds if they may."""
        workers = [node.plan.worker(name) for name in node.members]
        batches = {worker.name: worker.batch for worker in workers}
        growth = Growth(
            start=sum(batches.values()), samples=node.plan.samples if self.growth else 0, step=self.warmup_step,
            factor=self.speedup, period=self.period, slow_until=self.slow_until, until=self.grow_until,
        )  # fmt: skip
        paces = {w.name: w.samples_per_s if self.balance else float(w.batch) for w in workers}
        return Division(growth, batches, {w.name: Power(1.0 / paces[w.name], 0.0, w.shard) for w in workers})


class _Member:
    """What a worker knows: its batch, its links, how far everyone is, what arrived and is not yet applied."""

    def __init__(self, strategy: DLion, node: Node) -> None:
        self.strategy, self.node, self.peers = strategy, node, others(node)
        self.round = 0
        self.idle = False
        self.clocks: dict[str, float] = dict.fromkeys(self.peers, 0)  # rounds completed; infinity without work
        self.pending: list[tuple[str, DLionGradient]] = []
        self.links = Links(node, strategy.floor, strategy.residual)
        self.division = strategy.division(node)
        self.planned = self.division.total
        node.batch = self.division.batches[node.name]
        mine = node.plan.worker(node.name)
        self.iteration_s = mine.batch / mine.samples_per_s
        self.pace = Pace(batch=mine.batch, seconds=self.iteration_s, most=mine.shard)
        self.losses: deque[float] = deque(maxlen=strategy.dkt_losses)
        self.said: dict[int, dict[str, float]] = {}  # losses, by transfer
        self.decided = 0  # the last transfer whose best is known
        self.asked = False
        self.offered: Any = None

    @property
    def working(self) -> list[str]:
        """Peers that are not known to be without work."""
        return [peer for peer, clock in self.clocks.items() if math.isfinite(clock)]

    # -- the own gradient ---------------------------------------------------------------------------------------

    async def compute(self) -> Gradient:
        """The gradient of my share of this round. Without work, wait for what others send instead."""
        node = self.node
        self.began = node.now
        gradient = await node.compute()
        if gradient.lease is not None:
            self.pace.update(gradient.samples, node.now - self.began)
            self.losses.append(gradient.loss or 0.0)
        elif not self.working or not self.idle:
            await rest(node)
        elif self.strategy.limit:  # in lock-step the others' gradients are waited for anyway
            await self._take(await node.receive(*_KINDS))
        if node.batch < self.division.batches[node.name]:  # it was cut from outside: more does not fit into memory
            self.pace.most = node.batch
        await self._hear()  # before anything is sent: two that only send could wait for each other
        return gradient

    async def tell(self, gradient: Gradient) -> None:
        """Send everyone what fits of a gradient, and how far I am; that I have no work is said once."""
        already, self.idle = self.idle, gradient.lease is None
        if self.idle and already:
            return
        await self._say_power()
        for peer in self.peers:
            percent, payload = 0.0, None
            # Time spent waiting for others is not time for messages: long ones would justify longer ones.
            budget = self.links.budget(peer, self.iteration_s)
            if not self.idle and budget is not None:
                percent, payload = self.links.cut(peer, gradient.vector, gradient.samples, budget)
            await self.links.rates.send(
                peer, DLionGradient(self.round, gradient.samples, self.division.total, self.idle, percent, payload)
            )

    async def _say_power(self) -> None:
        """So early that everyone who waits for my clock has heard it when the division comes."""
        ahead = int(self.strategy.limit) if math.isfinite(self.strategy.limit) else 0
        number, left = divmod(self.round + 1 + ahead, self.strategy.period)
        if left == 0 and self.strategy.balance:
            power = self.pace.get()
            self.division.hear(self.node.name, number, power)
            for peer in self.peers:
                await self.node.send(peer, DLionPower(number, power.per_sample, power.fixed, power.most))

    # -- the others' --------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        for received in await self.node.arrived(*_KINDS):
            await self._take(received)

    async def _take(self, received: Received) -> None:
        sender = received.sender
        match received.message:
            case DLionGradient() as message:
                self.clocks[sender] = math.inf if message.idle else message.round + 1
                if message.vector is not None:
                    self.pending.append((sender, message))
            case DLionPower(number=number, per_sample=each, fixed=fixed, most=most):
                self.division.hear(sender, number, Power(each, fixed, most))
            case DLionLoss(number=number, loss=loss):
                self.said.setdefault(number, {})[sender] = loss
            case DLionAsk():
                await self.node.send(sender, DLionWeights(self.node.model.snapshot()))
            case DLionWeights(vector=weights):
                self.offered, self.asked = weights, False

    async def wait(self) -> None:
        """Until the slowest is near enough."""
        began = self.node.now
        await self._hear()
        while self.round + 1 - min(self.clocks.values(), default=math.inf) > self.strategy.limit:
            await self._take(await self.node.receive(*_KINDS))
        self.began += self.node.now - began  # it does not count as part of the iteration

    async def step(self, gradient: Gradient) -> None:
        """One step of my gradient and what has come of others'; in lock-step, of this round only."""
        last = self.round if self.strategy.limit == 0 else math.inf
        parts = {
            (sender, each.round): (self.links.decode(each.vector), self._weight(each.samples, each.total))
            for sender, each in self.pending
            if each.round <= last
        }
        self.pending = [(sender, each) for sender, each in self.pending if each.round > last]
        if gradient.lease is not None and (await self.node.commit([gradient.lease]))[0]:
            weight = self._weight(gradient.samples, self.division.total)
            parts[self.node.name, self.round] = (gradient.vector, weight)
        if parts:
            used = [parts[key] for key in sorted(parts)]  # the same order everywhere, so that sums agree
            await self.node.update(self.node.model.mean(used) * sum(weight for _, weight in used), self.planned)
        self._next()

    def _weight(self, samples: int, total: int) -> float:
        """Of a gradient, in a step as long as one of the planned global batch."""
        if self.strategy.weighting == "unbiased":
            return samples / total
        return samples / (len(self.node.members) * self.division.batches[self.node.name])

    def _next(self) -> None:
        self.round += 1
        if not self.idle:
            self.iteration_s += _SMOOTH * (self.node.now - self.began - self.iteration_s)
        elif self.strategy.limit:  # who only listens follows the others
            self.round = max(self.round, *(int(self.clocks[peer]) for peer in self.working), 0)
        if self.round % self.strategy.period == 0 and (self.strategy.balance or self.strategy.growth):
            self.division.divide(self.round)
            self.node.batch = self.division.batches[self.node.name]

    # -- knowledge transfer -------------------------------------------------------------------------------------

    async def transfer(self) -> None:
        """Say how well I do when it is time, ask the best for its weights, move towards what it sent."""
        number, left = divmod(self.round, self.strategy.dkt_period)
        due = left == 0 and self.strategy.dkt_pull > 0
        if due and not self.idle:
            loss = sum(self.losses) / len(self.losses)
            self.said.setdefault(number, {})[self.node.name] = loss
            for peer in self.peers:
                await self.node.send(peer, DLionLoss(number, loss))
        await self._ask_best()
        while due and self.strategy.limit == 0 and self.working and (self.decided < number or self.asked):
            await self._take(await self.node.receive(*_KINDS))
            await self._ask_best()
        if self.offered is not None:
            pull, best, self.offered = self.strategy.dkt_pull, self.offered, None
            self.node.model.load(self.node.model.mean([(self.node.model.vector, 1.0 - pull), (best, pull)]))

    async def _ask_best(self) -> None:
        """Once all who work have said how well they do, ask the best, unless an answer is still under way."""
        needed = {*self.working, *(() if self.idle else (self.node.name,))}
        complete = [number for number, said in self.said.items() if needed <= said.keys()]
        if not complete:
            return
        self.decided = max(complete)
        said = self.said[self.decided]
        self.said = {number: losses for number, losses in self.said.items() if number > self.decided}
        best = min((member for member in self.node.members if member in said), key=said.__getitem__)
        if best != self.node.name and not self.asked:
            self.asked = True
            await self.node.send(best, DLionAsk())


def _switched(name: str, value: object) -> bool:
    """A switch as a word or a truth value: YAML takes ``on`` for true, a command line does not."""
    if isinstance(value, bool):
        return value
    if value not in _SWITCH:
        raise InputError(f"{name} is {value!r}", remedy="give on or off")
    return _SWITCH[str(value)]
