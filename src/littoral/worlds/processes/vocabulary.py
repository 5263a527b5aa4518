"""What may cross the wire in a run: the coordinator's and nodes' own words, the stores', and the strategy's."""

from __future__ import annotations

import importlib
from types import ModuleType

from littoral.strategies.strategy import strategy_class
from littoral.worlds.node import Message
from littoral.worlds.processes import control, exchange, store
from littoral.worlds.wire.frames import Codec

PARTS = "littoral.strategies."  # what strategies are made of


def codec_for(strategy: str) -> Codec:
    """Knows every message of a run with this strategy, and no other."""
    module = importlib.import_module(strategy_class(strategy).__module__)
    kinds = [*strategy_kinds(module), *control.kinds_in(exchange), *control.kinds_in(store), *control.KINDS]
    return Codec(kinds)


def strategy_kinds(module: ModuleType) -> list[type[Message]]:
    """The messages of a strategy's module, and of the parts of ours that it uses."""
    modules, todo = {module.__name__: module}, [module]
    while todo:
        for value in vars(todo.pop()).values():
            name = getattr(value, "__module__", None)
            if isinstance(name, str) and name.startswith(PARTS) and name not in modules:
                modules[name] = importlib.import_module(name)
                todo.append(modules[name])
    return [kind for name in sorted(modules) for kind in control.kinds_in(modules[name])]
