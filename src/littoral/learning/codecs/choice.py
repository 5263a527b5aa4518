"""Which codec for a link, and which codecs for a use.

What is safe depends on what crosses and on how it is put together: a sum over nodes, a model, a step of many steps,
a gradient for a server.
"""

from __future__ import annotations

from enum import StrEnum

from littoral.document import suggest
from littoral.errors import InputError
from littoral.learning.codecs.codec import Codec, Family
from littoral.learning.codecs.sparse import Chain, Sparsifier
from littoral.learning.codecs.words import make_codec

LADDER = ("none", "float16", "int8", "fp4", "topk:0.05+int8", "topk:0.01+int8")  # from the mildest
_LEAST_OF_DELTA = 0.05


class Use(StrEnum):
    """What a codec is used for."""

    ALLREDUCE = "allreduce"  # sums over all nodes, hop by hop
    GOSSIP = "gossip"  # models, averaged with neighbours'
    DELTA = "delta"  # what many local steps changed
    PUSH = "push"  # gradients to a server or a peer


_OWN_SCALES = "every node has scales of its own, so coded sums mean nothing; use int8, float16 or randomk"
_DIFFERENCES = "gossip of raw parameters must be differences (CHOCO): what rounding a model loses never vanishes"
_REFUSED: dict[Use, dict[Family, str]] = {
    Use.ALLREDUCE: {
        Family.NIBBLE: "each hop would round to four bits again; use int8 or float16",
        Family.STOCHASTIC: _OWN_SCALES,
        Family.SIGN: _OWN_SCALES,
        Family.SPARSE: "nodes choose different elements, so the sum fills up hop by hop; use randomk, which all share",
        Family.LOWRANK: "P and Q would have to be summed within the step; this form is for two nodes",
    },
    Use.GOSSIP: {f: _DIFFERENCES for f in Family if f not in (Family.EXACT, Family.FLOAT)},
    Use.DELTA: {
        Family.SIGN: "a delta is sent too seldom for one bit to catch up; use fp4",
        Family.LOWRANK: "the change of many steps is not of low rank; use fp4",
        Family.SHARED: "what is drawn seldom waits for many rounds; use topk:0.05 or fp4",
    },
    Use.PUSH: {},
}  # fmt: skip


def refusal(codec: Codec, use: str) -> str:
    """Why a codec must not be used so; empty when it may.

    Sparse codecs are judged with error feedback, which is the stream's. Low rank for pushes is accepted because
    one message holds both factors: nothing waits for a sum.
    """
    kind = _use(use)
    if kind is Use.DELTA and codec.family is Family.SPARSE and _share(codec) < _LEAST_OF_DELTA:
        return (
            f"of a delta at least {_LEAST_OF_DELTA:.0%} must cross, or it is stale when it does; use topk:0.05 or fp4"
        )
    return _REFUSED[kind].get(codec.family, "")


def safe_for(codec: Codec, use: str) -> bool:
    """Whether a codec may be used so."""
    return not refusal(codec, use)


def is_linear(codec: Codec) -> bool:
    """Whether coded values of several nodes can be added up as they are (up to rounding)."""
    return codec.family in (Family.EXACT, Family.FLOAT, Family.SHARED)


def choose_codec(bytes_per_second: float, vector_bytes: int, seconds: float, use: str | None = None) -> str:
    """What ``codec: auto`` means on a link: the mildest codec whose message crosses within ``seconds``.

    ``seconds`` is the time of a step (or a round), so that compute hides the message; ``vector_bytes`` what it
    takes as float32. When nothing is small enough, the smallest. Codecs unsafe for ``use`` are passed over. Time to
    encode is left out, and so is latency, which no codec shortens.

    >>> choose_codec(bytes_per_second=2.5e6, vector_bytes=4_000_000, seconds=0.5)
    'int8'
    """
    ladder = [word for word in LADDER if use is None or safe_for(make_codec(word), use)]
    fits = (word for word in ladder if make_codec(word).nbytes(vector_bytes // 4) <= bytes_per_second * seconds)
    return next(fits, ladder[-1])


def _use(use: str) -> Use:
    if use not in list(Use):
        raise InputError(f"unknown use of a codec {use!r}", remedy=suggest(str(use), [known.value for known in Use]))
    return Use(use)


def _share(codec: Codec) -> float:
    sparse = codec.sparse if isinstance(codec, Chain) else codec
    return sparse.kept(10**6) / 10**6 if isinstance(sparse, Sparsifier) else 1.0
