"""What strategies without servers have in common: every worker holds a model of its own and commits its own samples.

The run's model is the mean of the workers' models: that is what is evaluated. A checkpoint keeps every one. When a
member comes or goes, every program begins again with the model it has and without what was under way between nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.strategies.strategy import Models, Source, check_number
from littoral.worlds.node import Gradient, Node

PAUSE_S = 0.05  # least length of a round of a worker that has nothing to compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """A base with the answers that most of them give; a strategy adds its name, its parameters and ``worker``.

    ``boost`` bounds how bold single models are. The mean of n models moves as far per sample as synchronous SGD moves
    (see ``step``), for which each one must go n times as far as its own batch deserves; that is too far for models
    that are mixed seldom or with few others. Beyond ``boost`` workers the learning rate is therefore lowered, to that
    of ``boost`` workers.
    """

    name: ClassVar[str]
    models: ClassVar[Models] = "own"
    limit: ClassVar[float] = 0  # iterations that workers may be apart, for planning: 0 in lock-step, else infinity

    boost: float = 3.0

    def __post_init__(self) -> None:
        check_number("boost", self.boost, least=1.0)

    async def server(self, node: Node) -> None:
        """There is none."""
        raise AssertionError(f"{self.name} has no servers")

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """What trains well on one device, with steps that are as bold as ``boost`` lets them be."""
        return replace(recipe, lr=recipe.lr * min(1.0, self.boost / workers))

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """Every member."""
        return [Source(node=member, start=0, stop=length, own=True) for member in members]


async def step(node: Node, gradient: Gradient, *, weighed: bool = False) -> bool:
    """Use a gradient on the own model; False if there was none, or its samples are somebody else's by now.

    It moves the mean of all models as far as its share of a synchronous step would. That moves everybody by lr(B)
    times the mean gradient of all B samples; here only one of n models moves, so it goes n times its share of them,
    n * samples / B. The step is scaled rather than averaging weights, which gossip needs to be uniform however unequal
    the batches are. ``weighed``: models are averaged by their planned batches instead, and the step is not scaled.
    """
    if gradient.lease is None:
        return False
    (valid,) = await node.commit([gradient.lease])
    if valid:
        batches = {member: node.plan.worker(member).batch for member in node.members}
        total = float(sum(batches.values()))
        share = gradient.samples / (batches[node.name] if weighed else total / len(batches))
        await node.update(gradient.vector, total, share)
    return valid


async def displacement(node: Node, gradient: Gradient) -> Any:
    """How far ``step`` moves the own model, which stays where it was; for strategies whose vector lives elsewhere."""
    before = node.model.snapshot()
    await step(node, gradient)
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
