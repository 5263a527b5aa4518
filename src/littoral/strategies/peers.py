"""What strategies without servers have in common: every worker holds a model of its own and commits its own samples.

The run's model is the mean of the workers' models: that is what is evaluated. A checkpoint keeps every one. When a
member comes or goes, every program begins again with the model it has and without what was under way between nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Models, Source, check_number
from littoral.worlds.node import Gradient, Node

BOOST = 3.0  # times its own batch that a model may step for
LARGE = 1.5  # times the mean batch: larger ones make no longer steps where models are averaged alike
PAUSE_S = 0.05  # least length of a round of a worker that has nothing to compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """A base with the answers that most of them give; a strategy adds its name, its parameters and ``worker``.

    ``boost`` bounds how bold single models are: see ``stride``.
    """

    name: ClassVar[str]
    models: ClassVar[Models] = "own"
    limit: ClassVar[float] = 0  # iterations that workers may be apart, for planning: 0 in lock-step, else infinity

    boost: float = BOOST

    def __post_init__(self) -> None:
        check_number("boost", self.boost, least=1.0)

    async def server(self, node: Node) -> None:
        """There is none."""
        raise AssertionError(f"{self.name} has no servers")

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device."""
        return recipe

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """Every member."""
        return [Source(node=member, start=0, stop=length, own=True) for member in members]


async def step(node: Node, gradient: Gradient, boost: float = BOOST, *, weighed: bool = False) -> bool:
    """Use a gradient on the own model; False if there was none, or its samples are somebody else's by now."""
    if gradient.lease is None:
        return False
    (valid,) = await node.commit([gradient.lease])
    if valid:
        batches = {member: node.plan.worker(member).batch for member in node.members}
        samples, share = stride(batches, node.name, boost, weighed=weighed)
        await node.update(gradient.vector, samples, share * gradient.samples / batches[node.name])
    return valid


def stride(batches: Mapping[str, int], me: str, boost: float = BOOST, *, weighed: bool = False) -> tuple[float, float]:
    """For how many samples a step of the own model is to be, and how many times as far as that.

    A synchronous step moves everybody by what the gradient of all samples deserves. Here only one of n models moves,
    so for the mean of all to get as far it goes n times as far as its own batch deserves: unequal batches make steps
    unequal, up to a point, and models are averaged alike, as gossip needs it. ``weighed``: they are averaged by
    ``weight``, the root of their batches, and steps differ by the root only; models of small batches have less to say
    and do not stand still.

    Models that are mixed seldom, or with few others, cannot bear steps for many times their batch: ``boost`` times
    is the most. Beyond so many workers an epoch gets less far than a synchronous one, with less noise.

    >>> stride({"a": 64, "b": 36}, "a"), stride({"a": 64, "b": 36}, "a", weighed=True)
    ((100.0, 1.28), (100.0, 1.12))
    """
    mean = sum(batches.values()) / len(batches)
    if weighed:
        share = weight(batches[me]) * sum(map(weight, batches.values())) / len(batches) / mean
    else:
        share = min(batches[me] / mean, LARGE)
    return min(float(len(batches)), boost) * mean, share


def weight(batch: int) -> float:
    """Of a model in averages that are weighed."""
    return math.sqrt(batch)


async def displacement(node: Node, gradient: Gradient, boost: float = BOOST) -> Any:
    """How far ``step`` moves the own model, which stays where it was; for strategies whose vector lives elsewhere."""
    before = node.model.snapshot()
    await step(node, gradient, boost)
    moved = node.model.vector - before
    node.model.load(before)
    return moved


async def rest(node: Node) -> None:
    """Pass a round without work in the time that one with work takes: others may still have some."""
    worker = node.plan.worker(node.name)
    await node.sleep(max(PAUSE_S, worker.batch / worker.samples_per_s))


def others(node: Node) -> tuple[str, ...]:
    """Every member but me."""
    return tuple(member for member in node.members if member != node.name)


def sites(node: Node) -> dict[str, tuple[str, ...]]:
    """The members at each site, in the plan's order."""
    found: dict[str, list[str]] = {}
    for member in node.members:
        found.setdefault(node.plan.worker(member).site, []).append(member)
    return {site: tuple(members) for site, members in found.items()}
