"""A strategy is a synchronisation algorithm: one short program per role, the same in every world.

To add one: a frozen dataclass of parameters with ``worker`` (and ``server``) coroutines, a cost in
``planning.cost``, and a line in ``REGISTRY``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal, Protocol

from littoral.document import suggest
from littoral.errors import InputError
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.worlds.node import Node

REGISTRY = {
    "adpsgd": "littoral.strategies.adpsgd:AdPsgd",
    "allreduce": "littoral.strategies.allreduce:AllReduce",
    "diloco": "littoral.strategies.diloco:DiLoCo",
    "dlion": "littoral.strategies.dlion:DLion",
    "dpsgd": "littoral.strategies.dpsgd:Dpsgd",
    "fedasync": "littoral.strategies.federated:FedAsync",
    "fedavg": "littoral.strategies.federated:FedAvg",
    "fedbuff": "littoral.strategies.federated:FedBuff",
    "gaia": "littoral.strategies.gaia:Gaia",
    "hop": "littoral.strategies.hop:Hop",
    "local_sgd": "littoral.strategies.local_sgd:LocalSgd",
    "parameter_server": "littoral.strategies.parameter_server:ParameterServer",
    "prague": "littoral.strategies.prague:Prague",
    "sgp": "littoral.strategies.sgp:Sgp",
}


# Who holds the model. ``served``: servers do. ``alike``: every worker, all the same. ``own``: every worker one of its
# own, and the run's model is their mean. Where workers hold it, one that joins must be given one.
Models = Literal["served", "alike", "own"]

ENTRY_POINTS = "littoral.strategies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A node that holds elements ``start`` to ``stop`` of the model; where several hold the same, their mean counts."""

    node: str
    start: int
    stop: int
    own: bool = False  # others hold the same elements, with values of their own

    @property
    def prefix(self) -> str:
        """What its tensors' names begin with in a checkpoint."""
        return f"{self.node}/" if self.own else f"{self.start}."

    def state(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Its part of a checkpoint. Who was not there when it was taken gets somebody else's."""
        prefix = self.prefix
        if self.own and not any(name.startswith(prefix) for name in tensors):
            prefix = next((name.partition("/")[0] + "/" for name in tensors), prefix)
        return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


class Strategy(Protocol):
    """What every node of a run executes."""

    name: ClassVar[str]
    models: ClassVar[Models]

    @property
    def limit(self) -> float:
        """How many iterations a worker may get ahead of the slowest: 0 in lock-step, infinity if nobody waits."""
        ...

    async def worker(self, node: Node) -> None:
        """The story of one worker, until its work is done."""
        ...

    async def server(self, node: Node) -> None:
        """The story of one server, until the run stops."""
        ...

    def tune(self, recipe: Recipe, workers: int) -> Recipe:
        """The recipe that trains well under this strategy, from the one that does on a single device."""
        ...

    def sources(self, plan: Plan, members: tuple[str, ...], length: int) -> list[Source]:
        """Where the model is to be found."""
        ...


def make_strategy(name: str, parameters: Mapping[str, Any]) -> Strategy:
    """The strategy of that name; unknown names, parameters and wrong values are answered with a remedy."""
    cls = strategy_class(name)
    known = {field.name: field for field in dataclasses.fields(cls)}
    for key in parameters:
        if key not in known:
            raise InputError(
                f"strategy {name!r} has no parameter {key!r}",
                remedy=suggest(key, list(known)),
                key="strategy",
            )
    strategy: Strategy = cls(**parameters)
    return strategy


def strategy_class(name: str) -> Any:
    """The class of a strategy: one of ours, one that a package declares, or ``my_package.my_file:MyStrategy``."""
    place = REGISTRY.get(name) or (name if ":" in name else declared().get(name))
    if place is None:
        remedy = suggest(name, [*REGISTRY, *declared(), "auto"]) + "; a class of your own is 'package.module:Class'"
        raise InputError(f"unknown strategy {name!r}", remedy=remedy, key="strategy")
    module, _, attribute = place.partition(":")
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        remedy = "check its name, and that its package is installed or on PYTHONPATH"
        raise InputError(f"strategy {name!r} cannot be loaded: {error}", remedy=remedy, key="strategy") from error
    missing = [part for part in ("name", "models", "limit", "worker", "tune", "sources") if not hasattr(found, part)]
    if not dataclasses.is_dataclass(found) or missing:
        what = f"has no {missing[0]!r}" if missing else "is not a dataclass"
        raise InputError(f"strategy {name!r} {what}", remedy="see docs/extending.md for an example", key="strategy")
    return found


def declared() -> dict[str, str]:
    """Strategies that installed packages declare as entry points of the group ``littoral.strategies``."""
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def check_number(name: str, value: object, least: float = 0.0, most: float = math.inf) -> None:
    """Refuse a parameter that is not a finite number between ``least`` and ``most``."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not least <= float(str(value)) <= most:
        limit = "" if math.isinf(most) else f" and at most {most:g}"
        raise InputError(f"{name} is {value!r}", remedy=f"give a number, at least {least:g}{limit}")


def check_whole(name: str, value: object, least: int = 0, most: int = 10**9) -> None:
    """Refuse a parameter that is not a whole number between ``least`` and ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} is {value!r}", remedy=f"give a whole number, at least {least} and at most {most}")


def check_choice(name: str, value: object, options: tuple[str, ...]) -> None:
    """Refuse a parameter that is not one of the words."""
    if value not in options:
        raise InputError(f"{name} is {value!r}", remedy=suggest(str(value), list(options)))
