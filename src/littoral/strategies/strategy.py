"""A strategy is a synchronisation algorithm: one short program per role, the same in every world.

To add one: a frozen dataclass of parameters with ``worker`` (and ``server``) coroutines, a cost in
``planning.cost``, and a line in ``REGISTRY``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol

from littoral.document import suggest
from littoral.errors import InputError
from littoral.learning.task import Recipe
from littoral.planning.plan import Plan
from littoral.worlds.node import Node

REGISTRY = {
    "allreduce": "littoral.strategies.allreduce:AllReduce",
    "parameter_server": "littoral.strategies.parameter_server:ParameterServer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A node that holds elements ``start`` to ``stop`` of the model."""

    node: str
    start: int
    stop: int


class Strategy(Protocol):
    """What every node of a run executes."""

    name: ClassVar[str]
    needs_servers: ClassVar[bool]
    replicated: ClassVar[bool]  # every worker holds the model, so one that joins must be given it

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
    if name not in REGISTRY:
        raise InputError(f"unknown strategy {name!r}", remedy=suggest(name, [*REGISTRY, "auto"]), key="strategy")
    module, _, attribute = REGISTRY[name].partition(":")
    cls: Any = getattr(import_module(module), attribute)
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


def check_whole(name: str, value: object, least: int = 0, most: int = 10**9) -> None:
    """Refuse a parameter that is not a whole number between ``least`` and ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} is {value!r}", remedy=f"give a whole number, at least {least} and at most {most}")


def check_choice(name: str, value: object, options: tuple[str, ...]) -> None:
    """Refuse a parameter that is not one of the words."""
    if value not in options:
        raise InputError(f"{name} is {value!r}", remedy=suggest(str(value), list(options)))
