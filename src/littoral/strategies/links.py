"""How much of a vector each link gets: the largest elements, as many as it carries in the time there is.

Per link a budget of bytes, the rate measured on it times the seconds it has (Hong and Chandra 2021: bandwidth over
iterations per second), and Max N, the largest N whose elements fit: those within N percent of their tensor's largest
magnitude. Different peers so get different parts of the same vector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from littoral.learning.codecs import Chain, Dense, Half, MaxN, Stream, largest_n
from littoral.strategies.rates import FRAMING_BYTES, Rates
from littoral.worlds.node import Node

_PATIENCE = 3  # messages that may be under way in vain before a link is spared
_MOST_BYTES = 1e15  # where a link has no limit


class Links:
    """A node's outgoing links. ``floor`` is the N that even the poorest gets.

    With ``residual`` a link is owed what it had no time for; without, that is forgotten. What follows the tensors
    that learn (statistics of norms) always crosses.
    """

    def __init__(self, node: Node, floor: float, residual: bool) -> None:
        self.rates = Rates(node, sharing=max(1, len(node.members) - 1))  # every port is shared by all its peers
        self._floor, self._residual, self._length = floor, residual, len(node.model.vector)
        self._values = Half() if node.plan.wire == "float16" else Dense()
        self._maxn = MaxN(floor, node.model.segments)
        self._streams: dict[str, Stream] = {}
        self._samples: dict[str, int] = {}  # whose mean gradient a residual is

    def budget(self, peer: str, seconds: float) -> float | None:
        """Bytes that a link carries in so many seconds besides what is under way; None while it should be spared.

        Not even the floor fits every link: what is offered to one in vain would queue up without end.
        """
        room = self.rates.room(peer, seconds)
        if room < -_PATIENCE * seconds * self.rates.rate(peer) and self._floor < 100:
            return None
        return min(max(0.0, room - FRAMING_BYTES), _MOST_BYTES)

    def cut(self, peer: str, vector: Any, samples: int, budget: float) -> tuple[float, Any]:
        """N and the payload of a mean gradient of ``samples`` samples for a peer."""
        stream = self._streams.setdefault(peer, Stream(self._codec(self._floor), feedback=self._residual))
        stream.rescale(self._samples.get(peer, samples) / samples)
        self._samples[peer] = samples
        owed = vector if stream.residual is None else stream.residual + vector
        percent = self._floor  # whatever the budget, where that is everything
        if percent < 100:
            percent = largest_n(owed, budget, self._floor, self._maxn, self._values)
        stream.codec = self._codec(percent)
        return percent, stream.encode(vector)

    def decode(self, payload: Any) -> Any:
        """The vector that a peer's payload stands for; zero where nothing crossed."""
        return self._codec(self._floor).decode(payload, self._length)

    def _codec(self, percent: float) -> Any:
        codec = replace(self._maxn, percent=percent)
        return Chain(codec, self._values) if isinstance(self._values, Half) else codec
