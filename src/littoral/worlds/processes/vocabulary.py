"""What may cross the wire in a run: the coordinator's and nodes' own words, the stores', and the strategy's."""

from __future__ import annotations

import importlib

from littoral.strategies.strategy import REGISTRY
from littoral.worlds.processes import control, exchange, store
from littoral.worlds.wire.frames import Codec


def codec_for(strategy: str) -> Codec:
    """Knows every message of a run with this strategy, and no other."""
    module = importlib.import_module(REGISTRY[strategy].partition(":")[0])
    kinds = [*control.kinds_in(module), *control.kinds_in(exchange), *control.kinds_in(store), *control.KINDS]
    return Codec(kinds)
