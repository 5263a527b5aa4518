"""What may cross the wire in a run: the coordinator's and nodes' own words, the stores', and the strategy's."""

from __future__ import annotations

import importlib

from littoral.strategies import gaia_server, groups, mirrors
from littoral.strategies.strategy import strategy_class
from littoral.worlds.processes import control, exchange, store
from littoral.worlds.wire.frames import Codec

SHARED = [
    kind for module in (groups, mirrors, gaia_server) for kind in control.kinds_in(module)
]  # of parts that strategies share


def codec_for(strategy: str) -> Codec:
    """Knows every message of a run with this strategy, and no other."""
    module = importlib.import_module(strategy_class(strategy).__module__)
    kinds = [*control.kinds_in(module), *SHARED, *control.kinds_in(exchange), *control.kinds_in(store), *control.KINDS]
    return Codec(kinds)
