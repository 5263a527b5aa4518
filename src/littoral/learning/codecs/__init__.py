"""Smaller messages: codecs of flat vectors, streams that remember what was left out, gossip through both.

A ``Codec`` is a frozen record that turns a float32 vector into bytes and back; ``make_codec`` reads a user's word
for one. A ``Stream`` per destination adds error feedback. ``Choco`` keeps the public copies of compressed gossip.
"""

from littoral.learning.codecs.choco import Choco, default_gamma
from littoral.learning.codecs.choice import LADDER, Use, choose_codec, is_linear, refusal, safe_for
from littoral.learning.codecs.codec import FIRST, Codec, Family, Turn
from littoral.learning.codecs.dgc import DgcStream
from littoral.learning.codecs.frame import HEADER_BYTES
from littoral.learning.codecs.maxn import MaxN, largest_n
from littoral.learning.codecs.narrow import Bfloat, Dense, Half
from littoral.learning.codecs.powersgd import PowerSgd
from littoral.learning.codecs.qsgd import Qsgd
from littoral.learning.codecs.rounding import E3M0, Int4, Int8
from littoral.learning.codecs.sign import Sign
from littoral.learning.codecs.significant import Significant
from littoral.learning.codecs.sparse import Chain
from littoral.learning.codecs.stream import Stream
from littoral.learning.codecs.topk import RandomK, TopK
from littoral.learning.codecs.words import WORDS, make_codec

__all__ = [
    "E3M0",
    "FIRST",
    "HEADER_BYTES",
    "LADDER",
    "WORDS",
    "Bfloat",
    "Chain",
    "Choco",
    "Codec",
    "Dense",
    "DgcStream",
    "Family",
    "Half",
    "Int4",
    "Int8",
    "MaxN",
    "PowerSgd",
    "Qsgd",
    "RandomK",
    "Sign",
    "Significant",
    "Stream",
    "TopK",
    "Turn",
    "Use",
    "choose_codec",
    "default_gamma",
    "is_linear",
    "largest_n",
    "make_codec",
    "refusal",
    "safe_for",
]
