"""Gossip of models through a codec: everybody keeps public copies, and only what changed in them crosses.

CHOCO-SGD (Koloskova et al., 2019). A model that is rounded directly never comes closer to its neighbours' than the
rounding; differences to a copy that both ends hold become small, and so do their errors. Both ends must see every
message in order: a link that may lose one needs a fresh copy afterwards (``adopt``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from littoral.errors import InputError
from littoral.learning.codecs.codec import Codec, Family
from littoral.learning.codecs.significant import Significant
from littoral.learning.codecs.sparse import Chain, Sparsifier
from littoral.learning.codecs.stream import Stream
from littoral.learning.codecs.topk import RandomK

_GAMMA = {
    Family.EXACT: 1.0,
    Family.FLOAT: 1.0,
    Family.BYTE: 0.8,
    Family.STOCHASTIC: 0.5,
    Family.NIBBLE: 0.5,
    Family.SIGN: 0.4,
    Family.LOWRANK: 0.1,
}


def default_gamma(codec: Codec) -> float:
    """How far to move towards the neighbours' copies with this codec.

    1 where copies are models; 0.8 with eight bits, 0.5 with four or QSGD and 0.4 with signs (0.4 to 0.5 are the
    published choices for deep networks). Theory asks for a step in proportion to the share that crosses: twice that
    of the largest elements (1 % gives 0.02), half that of random ones, which wait longer; between 0.005 and 0.5.
    All are starting points to tune: four times those diverge on a ring of five, slowly.
    """
    sparse = codec.sparse if isinstance(codec, Chain) else codec
    if not isinstance(sparse, Sparsifier):
        return _GAMMA[codec.family]
    share = sparse.kept(10**6) / 10**6
    return min(0.5, max(0.005, share / 2 if isinstance(sparse, RandomK) else 2 * share))


class Choco:
    """The public copies that one node holds: its own and its neighbours'. All begin as the common initial vector.

    After every local step: send ``difference(x)`` to all neighbours, ``receive`` theirs, then take ``mix(x, ...)``.
    With symmetric weights the mean over nodes is left alone by mixing.
    """

    def __init__(self, codec: Codec, initial: Any, neighbours: Iterable[str]) -> None:
        filters = codec.sparse if isinstance(codec, Chain) else codec
        if not codec.contracts or isinstance(filters, Significant):
            remedy = "choose one such as int8, sign or topk:0.01"
            raise InputError(f"gossip cannot use codec {codec.name!r}", remedy=remedy, key="codec")
        self.codec = codec
        self.own = initial.clone()
        self.copies = {name: initial.clone() for name in neighbours}
        self._stream = Stream(codec, feedback=False)  # a copy that lags is its own residual

    def difference(self, x: Any) -> Any:
        """The payload that brings everybody's copy of this node, ours included, nearer to ``x``."""
        payload = self._stream.encode(x - self.own)
        self.own = self.own + self.codec.decode(payload, len(self.own))
        return payload

    def receive(self, neighbour: str, payload: Any) -> None:
        """A neighbour's difference; ValueError (and no change) when it is malformed."""
        copy = self._copy(neighbour)
        self.copies[neighbour] = copy + self.codec.decode(payload, len(copy))

    def mix(self, x: Any, weights: Mapping[str, float], gamma: float | None = None) -> Any:
        """x + gamma * sum of W_ij (copy of j - own copy) over the neighbours that have weights."""
        step = default_gamma(self.codec) if gamma is None else gamma
        mixed = x.clone()
        for neighbour, weight in weights.items():
            mixed += (self._copy(neighbour) - self.own) * (step * weight)
        return mixed

    def adopt(self, neighbour: str, copy: Any) -> None:
        """Start over with a neighbour: its public copy as it holds it, sent whole."""
        self.copies[neighbour] = copy.clone()

    def leave(self, neighbour: str) -> None:
        """A neighbour is gone."""
        self.copies.pop(neighbour, None)

    def _copy(self, neighbour: str) -> Any:
        if neighbour not in self.copies:
            raise ValueError(f"no public copy of {neighbour!r}: adopt it first")
        return self.copies[neighbour]
