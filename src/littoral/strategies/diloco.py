"""DiLoCo (Douillard et al. 2023): many local steps, then one step of an outer optimiser by what they changed.

Everyone takes ``period`` steps with its own optimiser, whose memory stays its own; the mean of what they changed is a
gradient for Nesterov momentum on the common model. With outer_lr 1 and no momentum that is local SGD.

Streaming (Douillard et al. 2025): the vector is cut into ``fragments``, each exchanged every ``period`` steps at a time
of its own, so the peak is that much lower; with ``overlap`` the exchange goes on during so many steps, and what comes
back is mixed with what has been learned meanwhile. Asynchronous (Liu et al. 2024): the first member holds the common
model, applies every change as it comes with delayed momentum, and tells each worker how many steps to take so that all
report in the same rhythm.

Changes are weighed by the roots of planned batches. A group that changed begins again from the mean of its models,
without momentum: an outer step is done wholly or not at all, for it needs only local values once the mean is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from littoral.errors import InputError
from littoral.learning.codecs import Codec, make_codec
from littoral.strategies.groups import average
from littoral.strategies.outer import DelayedNesterov, Nesterov
from littoral.strategies.peers import Peers, rest, step, weight
from littoral.strategies.strategy import check_choice, check_number, check_whole
from littoral.worlds.node import Message, Node

CODECS = ("none", "float16", "bfloat16", "int8", "int4", "fp4")  # dropping values costs more than rounding them


class OuterDelta(Message, frozen=True):
    """What my steps since the last common model changed, if I had work, and how many of them I do in a second."""

    steps_per_s: float
    vector: Any


class OuterModel(Message, frozen=True):
    """The common model; report again after ``steps`` steps."""

    steps: int
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DiLoCo(Peers):
    """``period`` steps alone, then an outer step by the mean of what they changed."""

    name: ClassVar[str] = "diloco"

    mode: str = "sync"  # or async: nobody waits for anybody
    period: int = 30  # local steps between exchanges; the paper: 500
    outer_lr: float = 1.0  # the paper: 0.7, with AdamW inside and 100 steps or more
    outer_momentum: float = 0.5  # the paper: 0.9
    fragments: int = 1  # of sync: parts of the vector, exchanged one after another
    overlap: int = 0  # of sync: steps during which an exchange may go on
    alpha: float = 0.5  # share of the own values that stays when an overlapped exchange arrives
    codec: str = "none"  # of what crosses: none, float16, bfloat16, int8, int4 or fp4

    def __post_init__(self) -> None:
        Peers.__post_init__(self)
        check_choice("mode", self.mode, ("sync", "async"))
        check_choice("codec", self.codec, CODECS)
        check_whole("period", self.period, least=1)
        check_whole("fragments", self.fragments, least=1)
        check_whole("overlap", self.overlap)
        check_number("outer_lr", self.outer_lr, least=1e-6)
        check_number("outer_momentum", self.outer_momentum, most=0.999)
        check_number("alpha", self.alpha, most=1.0)
        if self.period % self.fragments:
            raise InputError(
                f"{self.fragments} fragments do not divide period {self.period}",
                remedy="give a period that is a multiple of them",
            )
        if self.overlap >= self.period // self.fragments:
            raise InputError(
                f"overlap {self.overlap}, but an exchange begins every {self.period // self.fragments} steps",
                remedy="give an overlap below period / fragments",
            )
        if self.mode == "async" and (self.fragments > 1 or self.overlap):
            raise InputError(
                "fragments and overlap need mode sync: nobody waits in async", remedy="set 'mode: sync', or leave both"
            )

    @property
    def limit(self) -> float:  # type: ignore[override]
        """Everyone waits for everyone, or nobody does."""
        return 0 if self.mode == "sync" else math.inf

    async def worker(self, node: Node) -> None:
        theta = node.model.snapshot()
        if node.generation > 1:
            theta = await average(node, node.members, theta, weight=weight(node.plan.worker(node.name).batch))
            node.model.load(theta)
        await (self._together if self.mode == "sync" else self._apart)(node, theta)

    # -- everyone waits for everyone ----------------------------------------------------------------------------

    async def _together(self, node: Node, theta: Any) -> None:
        parts = [Fragment(self, node, theta, number) for number in range(self.fragments)]
        interval = self.period // self.fragments
        for number in count(1):
            if not await step(node, await node.compute(), self.boost, weighed=True):
                await rest(node)
            # Which fragment follows from how many exchanges there were: the same for all, whatever else they did.
            meeting, since = divmod(number, interval)
            part = parts[(meeting - 1) % self.fragments]
            if since == 0:
                part.begin(meeting)
            if since == self.overlap and meeting:
                await part.finish()

    # -- nobody waits -------------------------------------------------------------------------------------------

    async def _apart(self, node: Node, theta: Any) -> None:
        home, codec = node.members[0], _codec(self.codec)
        host = Host(self, node, theta) if node.name == home else None
        if host is not None:
            node.spawn(host.serve())
        steps = local_steps(self.period, planned_speeds(node))[node.name]
        while True:
            report = await self._report(node, theta, steps, codec)
            if host is not None:
                answer = host.take(node.name, report)
            else:
                await node.send(home, report)
                answer = (await node.receive(OuterModel, sender=home)).message
            theta, steps = answer.vector, answer.steps
            node.model.load(theta)

    async def _report(self, node: Node, theta: Any, steps: int, codec: Codec | None) -> OuterDelta:
        """Take so many steps from the common model. Who has no work left asks for the model only."""
        done, seconds = 0, 0.0
        for _ in range(steps):
            began = node.now
            if await step(node, await node.compute(), self.boost, weighed=True):
                done, seconds = done + 1, seconds + node.now - began
            else:
                await rest(node)
        if not done:
            return OuterDelta(0.0, None)
        delta = theta - node.model.vector
        return OuterDelta(done / max(seconds, 1e-9), delta if codec is None else codec.encode(delta))


class Fragment:
    """One part of the vector: its common values, its momentum, and its exchange if one is under way."""

    def __init__(self, strategy: DiLoCo, node: Node, theta: Any, number: int) -> None:
        ends = [round(i * len(theta) / strategy.fragments) for i in (number, number + 1)]
        self._strategy, self._node, self._place = strategy, node, slice(*ends)
        self._weight = weight(node.plan.worker(node.name).batch)
        self._codec = _codec(strategy.codec)
        self._theta = theta[self._place]
        self._outer = Nesterov(
            lr=strategy.outer_lr, momentum=strategy.outer_momentum, trained=node.model.trained - ends[0]
        )
        self._exchange: Any = None

    def begin(self, meeting: int) -> None:
        """Give the others what changed here."""
        node, delta = self._node, self._theta - self._node.model.vector[self._place]
        exchange = average(node, node.members, delta, number=meeting, weight=self._weight, codec=self._codec)
        self._exchange = node.spawn(exchange) if self._strategy.overlap else exchange

    async def finish(self) -> None:
        """Take the outer step by everybody's mean."""
        mean = await self._exchange
        self._theta = self._outer.step(self._theta, mean)
        values, model = self._theta, self._node.model
        if self._strategy.overlap:
            alpha = self._strategy.alpha
            values = model.vector[self._place] * alpha + self._theta * (1.0 - alpha)
        model.load(values, self._place.start)


class Host:
    """The common model of an asynchronous group, at its first member."""

    def __init__(self, strategy: DiLoCo, node: Node, theta: Any) -> None:
        weights = {member: weight(node.plan.worker(member).batch) for member in node.members}
        self._strategy, self._node, self._theta = strategy, node, theta
        self._codec = _codec(strategy.codec)
        self._shares = {member: each / sum(weights.values()) for member, each in weights.items()}
        self._speeds = planned_speeds(node)
        self._outer = DelayedNesterov(
            lr=strategy.outer_lr, momentum=strategy.outer_momentum, trained=node.model.trained, every=len(weights)
        )

    async def serve(self) -> None:
        """Answer the others."""
        while True:
            received = await self._node.receive(OuterDelta)
            await self._node.send(received.sender, self.take(received.sender, received.message))

    def take(self, sender: str, report: OuterDelta) -> OuterModel:
        """Apply a change, if there is one; the model after it."""
        if report.vector is not None:
            delta = report.vector if self._codec is None else self._codec.decode(report.vector, len(self._theta))
            self._theta = self._outer.step(self._theta, delta * self._shares[sender])
            self._speeds[sender] = report.steps_per_s
        return OuterModel(local_steps(self._strategy.period, self._speeds)[sender], self._theta)


def local_steps(period: int, speeds: Mapping[str, float]) -> dict[str, int]:
    """How many steps each may take until the fastest has taken ``period`` (dynamic local updates).

    >>> local_steps(30, {"a": 2.0, "b": 1.0, "c": 0.01})
    {'a': 30, 'b': 15, 'c': 1}
    """
    fastest = max(speeds.values())
    return {name: max(1, math.floor(period * (speed / fastest))) for name, speed in speeds.items()}


def planned_speeds(node: Node) -> dict[str, float]:
    """Steps per second, as planned."""
    workers = [node.plan.worker(member) for member in node.members]
    return {worker.name: worker.samples_per_s / worker.batch for worker in workers}


def _codec(word: str) -> Codec | None:
    return None if word == "none" else make_codec(word)
