from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.learning.codecs import (
    E3M0,
    LADDER,
    WORDS,
    Chain,
    Dense,
    Half,
    Int8,
    MaxN,
    PowerSgd,
    RandomK,
    Sign,
    Significant,
    TopK,
    choose_codec,
    is_linear,
    largest_n,
    make_codec,
    refusal,
    safe_for,
)
from littoral.learning.phantom import Phantom

many = settings()


def test_the_words_of_users() -> None:
    for word in WORDS:
        codec = make_codec(word)
        assert make_codec(codec.name) == codec, word
    assert make_codec("topk") == TopK(0.01) and make_codec(" FP4 ") == E3M0()
    assert make_codec("topk:0.01+int8") == Chain(TopK(0.01), Int8())


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("flaot16", "did you mean 'float16'"),
        ("topk:2", "at most 1"),
        ("topk:nan", "above 0"),
        ("topk:x", "write topk:0.01"),
        ("topk:", "write topk:0.01"),
        ("int8:4", "write int8"),
        ("qsgd:500", "at most 127"),
        ("powersgd:0", "at least 1"),
        ("maxn:101", "at most 100"),
        ("int8+topk:0.1", "first"),
        ("int8+int8", "first"),
        ("topk:0.1+int8+int8", "chain two"),
        ("zip", "known:"),
        ("", "known:"),
        (8, "write one of"),
    ],
)
def test_other_words_are_answered_with_a_remedy(text: Any, remedy: str) -> None:
    with pytest.raises(InputError, match=remedy):
        make_codec(text)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Int8(block=0),
        lambda: Sign(block=0),
        lambda: Significant(-1.0),
        lambda: Significant(math.inf),
        lambda: MaxN(10, segments=((0, 5), (4, 8))),
        lambda: PowerSgd(2, layout=((0, 3, 3), (5, 2, 2))),
        lambda: TopK(True),
        lambda: largest_n(Phantom(3), 100, 0.0),
    ],
)
def test_wrong_parameters_are_refused_when_the_codec_is_made(wrong: Any) -> None:
    with pytest.raises(InputError):
        wrong()


@many
@given(rate=st.floats(1, 1e9), faster=st.floats(1, 100), length=st.integers(1000, 10**7), seconds=st.floats(1e-3, 100))
def test_auto_takes_the_mildest_codec_that_is_in_time(rate: float, faster: float, length: int, seconds: float) -> None:
    chosen = choose_codec(rate, 4 * length, seconds)
    rung = LADDER.index(chosen)
    assert make_codec(chosen).nbytes(length) <= rate * seconds or chosen == LADDER[-1]
    assert all(make_codec(milder).nbytes(length) > rate * seconds for milder in LADDER[:rung])
    assert LADDER.index(choose_codec(rate * faster, 4 * length, seconds)) <= rung


def test_every_rung_is_some_links_choice() -> None:
    chosen = [choose_codec(rate, 4_000_000, 1.0) for rate in (5e6, 2.5e6, 1.2e6, 6e5, 2e5, 6e4, 1e3, 0)]
    assert chosen == [*LADDER, LADDER[-1], LADDER[-1]]
    assert choose_codec(1e3, 4_000_000, 1.0, use="delta") == "topk:0.05+int8"
    assert choose_codec(1e3, 4_000_000, 1.0, use="allreduce") == "int8"
    assert choose_codec(1e3, 4_000_000, 1.0, use="gossip") == "float16"


def test_safe_combinations() -> None:
    safe = {
        "allreduce": {"none", "float16", "bfloat16", "int8", "randomk:0.01"},
        "gossip": {"none", "float16", "bfloat16"},
        "delta": {"none", "float16", "bfloat16", "int8", "int4", "fp4", "qsgd:127", "topk:0.1"},
        "push": {*WORDS, "topk:0.1"},
    }
    for use, words in safe.items():
        assert {word for word in (*WORDS, "topk:0.1") if safe_for(make_codec(word), use)} == words
    assert "CHOCO" in refusal(Int8(), "gossip") and "randomk" in refusal(TopK(), "allreduce")
    assert is_linear(RandomK()) and is_linear(Dense()) and not is_linear(TopK()) and not is_linear(PowerSgd())
    assert not is_linear(Chain(RandomK(), Int8())) and is_linear(Chain(RandomK(), Half()))
    with pytest.raises(InputError, match="did you mean 'gossip'"):
        refusal(Int8(), "gosip")


def test_codecs_can_be_made_and_weighed_without_torch() -> None:
    code = """
import sys
sys.modules['torch'] = None
from littoral.learning.codecs import WORDS, Stream, make_codec, choose_codec, largest_n
from littoral.learning.phantom import Phantom
for word in WORDS:
    stream = Stream(make_codec(word))
    payload = stream.encode(Phantom(1000))
    assert payload.nbytes == stream.codec.nbytes(1000)
    assert len(stream.codec.decode(payload, 1000)) == 1000
    assert stream.flush().nbytes == 4008
assert choose_codec(1e9, 4000, 1.0) == 'none'
assert largest_n(Phantom(1000), 1e9) == 100.0 and largest_n(Phantom(1000), 10, 2.0) == 2.0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
