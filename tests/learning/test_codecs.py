from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from littoral.learning.codecs import (
    E3M0,
    HEADER_BYTES,
    WORDS,
    Bfloat,
    Chain,
    Codec,
    Dense,
    Half,
    Int4,
    Int8,
    MaxN,
    PowerSgd,
    Qsgd,
    RandomK,
    Sign,
    Significant,
    TopK,
    Turn,
    largest_n,
    make_codec,
)
from littoral.learning.phantom import Phantom

torch = pytest.importorskip("torch")

KINDS = ("normal", "zeros", "constant", "huge", "tiny", "mixed", "ties", "lonely")


def made(kind: str, length: int, seed: int) -> Any:
    """A vector with something about it."""
    random = torch.Generator().manual_seed(seed)
    normal = torch.randn(length, generator=random)
    match kind:
        case "zeros":
            return torch.zeros(length)
        case "constant":
            return torch.full((length,), float(normal[0]))
        case "huge":
            return normal * 1e30
        case "tiny":
            return normal * 1e-30
        case "mixed":
            return normal * 10 ** (24 * torch.rand(length, generator=random) - 12)
        case "ties":
            return torch.randint(-2, 3, (length,), generator=random).float()
        case "lonely":
            vector = torch.zeros(length)
            vector[seed % length] = normal[0]
            return vector
    return normal


vectors = st.builds(made, st.sampled_from(KINDS), st.integers(1, 300), st.integers(0, 2**32 - 1))
ratios = st.floats(0.001, 1.0)

FIXED: list[Codec] = [  # their sizes depend on the length alone
    Dense(),
    Half(),
    Bfloat(),
    Int8(),
    Int8(block=7),
    Int4(),
    Int4(block=5),
    E3M0(),
    Sign(),
    Sign(block=16),
    Qsgd(),
    Qsgd(levels=7, bucket=33),
    TopK(0.01),
    TopK(0.2),
    TopK(1.0),
    RandomK(0.1, seed=3),
    PowerSgd(1),
    PowerSgd(2, layout=((3, 6, 8), (60, 10, 12))),
    Chain(TopK(0.1), Int8()),
    Chain(RandomK(0.3), E3M0()),
    Chain(TopK(0.3), Half()),
]
CODECS = [*FIXED, MaxN(30.0), MaxN(30.0, segments=((0, 1),)), Significant(0.5), Chain(MaxN(50.0), Int8(block=9))]


def fits(codec: Codec, length: int) -> bool:
    """Whether a codec with a layout is meant for vectors so short."""
    return not (isinstance(codec, PowerSgd) and codec.layout is not None and length < 180)


def coded(codec: Codec, vector: Any, counter: int = 0) -> Any:
    return codec.encode(vector, Turn(counter=counter, weights=torch.ones(len(vector))))


def sent(codec: Codec, vector: Any, counter: int = 0) -> Any:
    return codec.decode(coded(codec, vector, counter), len(vector))


def named(codec: Codec) -> str:
    return codec.name


def fitting(codecs: Sequence[Codec], length: int) -> Iterator[Codec]:
    """One after the other, so that each case is drawn once for all; the last one noted is the one that failed."""
    for codec in codecs:
        if fits(codec, length):
            note(repr(codec))
            yield codec


@given(vector=vectors)
def test_every_codec_gives_a_finite_vector_of_the_same_length_and_leaves_its_input_alone(vector: Any) -> None:
    before = vector.clone()
    for codec in fitting(CODECS, len(vector)):
        payload = coded(codec, vector)
        assert payload.dtype is torch.uint8 and payload.ndim == 1
        decoded = codec.decode(payload, len(vector))
        assert decoded.dtype is torch.float32 and decoded.shape == vector.shape
        assert decoded.isfinite().all() and torch.equal(vector, before)
        assert torch.equal(coded(codec, vector), payload)
        if codec.lossless:
            assert torch.equal(decoded, vector)
        if not vector.any():
            assert not decoded.any()


@given(length=st.integers(1, 3000), kind=st.sampled_from(KINDS))
def test_sizes_depend_on_the_length_alone_and_a_phantom_knows_them(length: int, kind: str) -> None:
    vector = made(kind, length, 1)
    for codec in fitting(FIXED, length):
        payload = coded(codec, vector)
        phantom = codec.encode(Phantom(length))
        assert len(payload) == codec.nbytes(length) == phantom.nbytes
        assert len(codec.decode(phantom, length)) == length and codec.decode(phantom, length).nbytes == 4 * length


@given(length=st.integers(1, 10**7), ratio=ratios)
def test_bytes_are_those_of_the_formula(length: int, ratio: float) -> None:
    k = TopK(ratio).kept(length)
    assert max(1, ratio * length - 1e-6) <= k <= max(1, ratio * length + 1)
    head = HEADER_BYTES
    assert TopK(ratio).nbytes(length) == head + min(4 * k + min(4 * k, math.ceil(length / 8)), 4 * length)
    assert RandomK(ratio).nbytes(length) == head + 4 * k
    blocks = math.ceil(length / 256)
    assert Int8().nbytes(length) == head + length + 4 * blocks
    assert E3M0().nbytes(length) == Int4().nbytes(length) == head + math.ceil(length / 2) + 4 * blocks
    assert Sign().nbytes(length) == head + math.ceil(length / 8) + 4
    assert Qsgd().nbytes(length) == head + length + 4 * math.ceil(length / 512)
    assert Half().nbytes(length) == Bfloat().nbytes(length) == head + 2 * length
    assert Dense().nbytes(length) == head + 4 * length


def test_typical_ratios() -> None:
    """Of the order of the published ones, for a vector of a million."""
    ratio = {word: 4e6 / make_codec(word).nbytes(10**6) for word in WORDS}
    assert ratio["int8"] > 3.9 and ratio["fp4"] > 7.7 and ratio["sign"] > 31.9
    assert 49 < ratio["topk:0.01"] < 51 and 99 < ratio["randomk:0.01"] < 101 and ratio["powersgd:2"] > 100


@given(vector=vectors, ratio=ratios)
def test_top_k_keeps_the_largest_and_is_idempotent(vector: Any, ratio: float) -> None:
    codec = TopK(ratio)
    once = sent(codec, vector)
    kept = codec.held(coded(codec, vector), len(vector))
    dropped = torch.ones(len(vector), dtype=torch.bool)
    dropped[kept] = False
    assert torch.equal(once[kept], vector[kept]) and not once[dropped].any()
    if dropped.any():
        assert vector[kept].abs().min() >= vector[dropped].abs().max()
    assert torch.equal(sent(codec, once), once)
    lost = (vector - once).double().square().sum()
    assert lost <= (1 - codec.kept(len(vector)) / len(vector)) * vector.double().square().sum() * (1 + 1e-9)


@given(vector=vectors, block=st.integers(1, 64))
def test_rounding_errors_are_within_the_stated_bounds(vector: Any, block: int) -> None:
    piece, most = vector[:block], vector[:block].abs().max()
    for codec, bound in ((Int8(block), 1 / 254), (Int4(block), 1 / 14)):
        assert (sent(codec, vector)[:block] - piece).abs().max() <= most * bound * (1 + 1e-5)
    error = (sent(E3M0(block), vector)[:block] - piece).abs()
    assert (error <= torch.maximum(piece.abs() / 3, most / 128) * (1 + 1e-5)).all()
    assert ((sent(Bfloat(), vector) - vector).abs() <= vector.abs() * 2.0**-8 + 1e-38).all()
    usual = vector[vector.abs() < 65504]
    if len(usual):
        assert ((sent(Half(), usual) - usual).abs() <= usual.abs() * 2.0**-11 + 2.0**-25).all()


def test_powers_of_two_are_what_fp4_holds_and_halves_saturate() -> None:
    exact = torch.tensor([0.0, *(2.0**e for e in range(-6, 1)), *(-(2.0**e) for e in range(-6, 1))]) * 3
    assert torch.equal(sent(E3M0(), exact), exact)
    nearest = torch.tensor([1.0, 0.74, 0.76, -0.37, -0.38, 0.009, 0.007])
    assert sent(E3M0(), nearest).tolist() == [1.0, 0.5, 1.0, -0.25, -0.5, 2.0**-6, 0.0]
    assert sent(Half(), torch.tensor([1e30, -1e30])).tolist() == [65504.0, -65504.0]
    assert sent(Bfloat(), torch.tensor([3.4028234e38])).isfinite().all()


@given(vector=vectors)
def test_what_keeps_everything_is_the_identity(vector: Any) -> None:
    everything: list[Codec] = [TopK(1.0), RandomK(1.0), RandomK(1.0, unbiased=True), MaxN(100.0), PowerSgd(300)]
    for codec in everything:
        assert torch.equal(sent(codec, vector), vector), codec.name
    everything_matters = Significant(0.0)
    payload = everything_matters.encode(vector, weights=vector)
    assert torch.equal(everything_matters.decode(payload, len(vector)), vector)


@given(vector=vectors)
def test_signs_keep_the_mean_magnitude(vector: Any) -> None:
    once = sent(Sign(), vector)
    assert torch.allclose(once.abs().double().mean(), vector.abs().double().mean(), rtol=1e-6, atol=0)
    assert torch.allclose(sent(Sign(), once), once, rtol=1e-6, atol=0)
    assert ((once < 0) == (vector < 0))[once != 0].all()


@pytest.mark.parametrize("levels", [1, 7, 127])
def test_qsgd_is_unbiased(levels: int) -> None:
    """Thirty-two thousand draws at once: the same bucket of sixteen, again and again."""
    piece = made("normal", 16, 5)
    draws = torch.cat([sent(Qsgd(levels, bucket=16), piece.repeat(4000), n).view(-1, 16) for n in range(8)]).double()
    standard_error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - piece).abs() <= 4 * standard_error + 1e-6).all()
    assert float(draws.std(0).max()) > 0


def test_random_k_is_unbiased_when_asked_and_draws_anew_for_every_message() -> None:
    vector = made("normal", 20, 5)
    draws = torch.stack([sent(RandomK(0.2, unbiased=True), vector, n) for n in range(4900)]).double()
    standard_error = draws.std(0) / 70
    assert ((draws.mean(0) - vector).abs() <= 4 * standard_error).all()
    assert ((draws != 0).sum(1) == 4).all()


def test_random_k_chooses_alike_on_all_nodes_so_payloads_can_be_added() -> None:
    a, b = made("normal", 200, 1), made("normal", 200, 2)
    codec = RandomK(0.1, seed=7)
    assert torch.allclose(sent(codec, a, 5) + sent(codec, b, 5), sent(codec, a + b, 5))
    assert not torch.equal(sent(codec, a, 5) != 0, sent(codec, a, 6) != 0)
    assert not torch.equal(sent(codec, a, 5) != 0, sent(RandomK(0.1, seed=8), a, 5) != 0)


@given(vector=vectors, seed=st.integers(0, 1000), threshold=st.floats(0, 2), zeros=st.booleans())
def test_the_significance_filter(vector: Any, seed: int, threshold: float, zeros: bool) -> None:
    weights = made("ties" if zeros else "normal", len(vector), seed)
    codec = Significant(0.01)
    payload = codec.encode(vector, weights=weights, threshold=threshold)
    decoded = codec.decode(payload, len(vector))
    relative = vector.double().abs() / weights.double().abs()  # 0/0 is not a number: never significant
    significant = relative > threshold * (1 + 1e-12)
    assert torch.equal(decoded[significant], vector[significant])
    count = int((vector.double().abs() > threshold * weights.double().abs()).sum())
    if 2 * count >= len(vector):
        assert torch.equal(decoded, vector) and len(payload) == HEADER_BYTES + 4 * len(vector)
    else:
        assert int((decoded != 0).sum()) == count and len(payload) == HEADER_BYTES + 8 * count


def test_the_dense_switch_is_at_half() -> None:
    vector, codec = torch.ones(10), Significant(0.5)
    for significant, nbytes in ((4, 32), (5, 40), (10, 40)):
        weights = torch.tensor([1.0] * significant + [10.0] * (10 - significant))
        assert len(codec.encode(vector, weights=weights)) == HEADER_BYTES + nbytes
    with pytest.raises(ValueError, match="give them"):
        codec.encode(vector)


@given(vector=vectors, percents=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), cut=st.integers(0, 300))
def test_max_n_is_monotone_keeps_the_largest_and_knows_tensors(
    vector: Any, percents: tuple[float, float], cut: int
) -> None:
    whole = MaxN(min(percents))
    fewer, more = (set(replace(whole, percent=n).select(vector, Turn()).tolist()) for n in sorted(percents))
    assert fewer <= more
    if vector.any():
        assert int(vector.abs().argmax()) in fewer
    kept = torch.zeros(len(vector), dtype=torch.bool)
    kept[list(fewer)] = True
    if fewer and not kept.all():
        assert vector[kept].abs().min() >= vector[~kept].abs().max()
    if 0 < cut < len(vector):
        halves = replace(whole, segments=((0, cut), (cut, len(vector)))).select(vector, Turn()).tolist()
        left, right = whole.select(vector[:cut], Turn()), whole.select(vector[cut:], Turn()) + cut
        assert halves == left.tolist() + right.tolist()


@given(vector=vectors, budget=st.integers(0, 1400), floor=st.floats(0.1, 50))
def test_the_largest_n_fits_its_budget_unless_it_is_the_floor(vector: Any, budget: int, floor: float) -> None:
    n = largest_n(vector, budget, floor)
    size = len(coded(MaxN(n), vector))
    assert floor <= n <= 100
    assert size <= budget or n == floor
    if n < 99.9:
        assert len(coded(MaxN(n + 0.001), vector)) >= size
        at_most = len(coded(MaxN(min(100.0, n + 1e-4)), vector))
        assert at_most > budget or size > budget


def test_low_rank_recovers_a_low_rank_matrix_and_p_is_orthonormal() -> None:
    random = torch.Generator().manual_seed(0)
    matrix = torch.randn(30, 2, generator=random) @ torch.randn(2, 40, generator=random)
    vector = torch.cat([torch.ones(5), matrix.reshape(-1), torch.ones(3)])
    codec = PowerSgd(2, layout=((5, 30, 40),))
    payload = codec.encode(vector)
    assert len(payload) == HEADER_BYTES + 4 * (8 + 2 * 70)
    assert torch.allclose(codec.decode(payload, len(vector)), vector, atol=1e-4)
    ((p, _),) = codec.factors(payload, len(vector))
    assert torch.allclose(p.T @ p, torch.eye(2), atol=1e-5)


def test_a_warm_start_comes_nearer_with_every_message() -> None:
    vector, codec, payload = made("normal", 2500, 3), PowerSgd(2), None
    errors = []
    for _ in range(30):
        payload = codec.encode(vector, Turn(previous=payload))
        errors.append(float((codec.decode(payload, 2500) - vector).norm()))
    values = torch.linalg.svdvals(vector.view(50, 50))
    assert errors == sorted(errors, reverse=True) or max(errors[5:]) < errors[0]
    assert errors[-1] <= 1.02 * float(values[2:].norm())  # the best there is of rank two


@given(
    length=st.integers(1, 60),
    kind=st.sampled_from(KINDS),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    cut=st.none() | st.integers(0, 10**6),
    tail=st.binary(max_size=3),
    expected=st.sampled_from([lambda n: n, lambda n: n + 1, lambda n: 200 + n, lambda n: 2 * n + 180]),
)
def test_malformed_payloads_are_refused_or_decoded_never_worse(
    length: int, kind: str, changes: list[tuple[int, int]], cut: int | None, tail: bytes, expected: Callable[[int], int]
) -> None:
    for codec in CODECS:
        note(repr(codec))
        size = length if fits(codec, length) else length + 180
        raw = bytearray(coded(codec, made(kind, size, 4)).tolist())
        for place, value in changes:
            raw[place % len(raw)] = value
        raw = raw[: len(raw) if cut is None else cut % (len(raw) + 1)] + tail
        payload = torch.tensor(list(raw), dtype=torch.uint8)
        try:
            decoded = codec.decode(payload, expected(size))
        except ValueError:
            continue
        assert decoded.dtype is torch.float32 and decoded.shape == (expected(size),)


@pytest.mark.parametrize("codec", CODECS, ids=named)
def test_what_is_no_payload_at_all_is_refused(codec: Codec) -> None:
    for wrong in (None, b"12345678", torch.zeros(20), torch.zeros(4, 4, dtype=torch.uint8), [1, 2]):
        with pytest.raises(ValueError):
            codec.decode(wrong, 4)
    for wrong in (torch.zeros(4, 4), torch.zeros(4, dtype=torch.float64), [1.0]):
        with pytest.raises(ValueError, match="flat float32"):
            codec.encode(wrong)


def test_indices_are_never_believed() -> None:
    payload = TopK(0.02).encode(made("normal", 100, 1))
    for first, second in ((5, 5), (7, 3), (-1, 3), (3, 100), (3, 2**31 - 1)):
        bad = payload.clone()
        bad[8:16] = torch.tensor([first, second], dtype=torch.int32).view(torch.uint8)
        with pytest.raises(ValueError, match="ascend"):
            TopK(0.02).decode(bad, 100)
    bitmap = TopK(0.3).encode(made("normal", 100, 1))
    bitmap[8 + 12] |= 0x80  # behind the hundredth
    with pytest.raises(ValueError, match="behind"):
        TopK(0.3).decode(bitmap, 100)


@pytest.mark.parametrize("codec", CODECS, ids=named)
def test_payloads_may_lie_anywhere_and_vectors_are_their_receivers_own(codec: Codec) -> None:
    vector = made("normal", 200, 2)
    payload = coded(codec, vector)
    moved = torch.cat([torch.zeros(3, dtype=torch.uint8), payload])[3:]
    decoded = codec.decode(moved, 200)
    assert torch.equal(decoded, codec.decode(payload, 200))
    decoded.fill_(7)
    assert torch.equal(codec.decode(payload, 200), sent(codec, vector))
    dense = Dense().encode(vector)
    assert torch.equal(codec.decode(dense, 200), vector)


@pytest.mark.parametrize("codec", [c for c in CODECS if fits(c, 0)], ids=named)
def test_a_vector_of_nothing(codec: Codec) -> None:
    if isinstance(codec, MaxN) and codec.segments:
        return  # its tensors are not there
    empty = torch.zeros(0)
    payload = coded(codec, empty)
    assert len(codec.decode(payload, 0)) == 0
