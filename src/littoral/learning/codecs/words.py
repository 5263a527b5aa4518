"""The words a user writes for codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from littoral.document import suggest
from littoral.errors import InputError, brief
from littoral.learning.codecs.codec import Codec
from littoral.learning.codecs.maxn import MaxN
from littoral.learning.codecs.narrow import Bfloat, Dense, Half
from littoral.learning.codecs.powersgd import PowerSgd
from littoral.learning.codecs.qsgd import Qsgd
from littoral.learning.codecs.rounding import E3M0, Int4, Int8
from littoral.learning.codecs.sign import Sign
from littoral.learning.codecs.sparse import Chain
from littoral.learning.codecs.topk import RandomK, TopK

_PLAIN: dict[str, Callable[[], Codec]] = {
    "none": Dense, "float16": Half, "bfloat16": Bfloat, "int8": Int8, "int4": Int4, "fp4": E3M0, "sign": Sign,
}  # fmt: skip
_NUMBERED: dict[str, tuple[Callable[[Any], Codec], type, str]] = {
    "topk": (TopK, float, "0.01"),
    "randomk": (RandomK, float, "0.01"),
    "qsgd": (Qsgd, int, "127"),
    "powersgd": (PowerSgd, int, "2"),
    "maxn": (MaxN, float, "10"),
}
WORDS = (*_PLAIN, *(f"{word}:{usual}" for word, (_, _, usual) in _NUMBERED.items()), "topk:0.01+int8")


def make_codec(text: str) -> Codec:
    """The codec that a user's word means; a word without its number takes the usual one.

    >>> make_codec("topk:0.01+int8").nbytes(100_000)
    5024
    """
    if not isinstance(text, str):
        raise InputError(f"codec is {brief(text)}", remedy=f"write one of {', '.join(WORDS)}", key="codec")
    codecs = [_one(word.strip(), text) for word in text.strip().lower().split("+")]
    if len(codecs) > 2:
        raise InputError(
            f"codec {brief(text)} chains {len(codecs)}", remedy="chain two, as topk:0.01+int8", key="codec"
        )
    return codecs[0] if len(codecs) == 1 else Chain(*codecs)  # type: ignore[arg-type]


def _one(word: str, text: str) -> Codec:
    name, colon, number = word.partition(":")
    if name in _PLAIN and not colon:
        return _PLAIN[name]()
    if name in _PLAIN:
        raise InputError(f"codec {brief(text)}: {name} takes no number", remedy=f"write {name}", key="codec")
    if name not in _NUMBERED:
        raise InputError(f"unknown codec {brief(text)}", remedy=suggest(word, list(WORDS)), key="codec")
    make, kind, usual = _NUMBERED[name]
    try:
        value = kind(number if colon else usual)
    except ValueError:
        remedy = f"write {name}:{usual}"
        raise InputError(
            f"codec {brief(text)}: {brief(number)} is not its number", remedy=remedy, key="codec"
        ) from None
    return make(value)
