from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_codecs import CODECS, KINDS, fitting, made, named

from littoral.errors import InputError
from littoral.learning.codecs import (
    Chain,
    Choco,
    Codec,
    Dense,
    DgcStream,
    Half,
    Int8,
    PowerSgd,
    Qsgd,
    RandomK,
    Sign,
    Significant,
    Stream,
    TopK,
    default_gamma,
    make_codec,
)
from littoral.learning.phantom import Phantom

torch = pytest.importorskip("torch")

CONTRACTING = [codec for codec in CODECS if codec.contracts]
seeds = st.integers(0, 2**31)


def series(kinds: list[str], length: int, seed: int) -> list[Any]:
    return [made(kind, length, seed + n) for n, kind in enumerate(kinds)]


def close(left: Any, right: Any, *all_numbers: Any) -> bool:
    """Equal up to float32 rounding of the largest number that was ever added."""
    scale = max(float(v.abs().max()) for v in all_numbers)
    return float((left - right).abs().max()) <= 4e-7 * len(all_numbers) * scale + 1e-44


@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), length=st.integers(1, 300), seed=seeds)
def test_all_that_was_sent_and_the_residual_are_all_that_was_given(kinds: list[str], length: int, seed: int) -> None:
    given_, weights = series(kinds, length, seed), torch.ones(length)
    produced = sum(v.double() for v in given_)
    for codec in fitting(CONTRACTING, length):
        stream, sent = Stream(codec), []
        for n, vector in enumerate(given_):
            payload = stream.encode(vector, weights=weights)
            if n % 3 == 2:
                stream.credit(payload)  # lost on its way
            else:
                sent.append(codec.decode(payload, length))
        arrived = sum((v.double() for v in sent), torch.zeros(length, dtype=torch.float64))
        assert close(arrived + stream.residual.double(), produced, *given_, *sent, stream.residual)
        sent.append(codec.decode(stream.flush(), length))
        assert not stream.residual.any()
        assert close(sum(v.double() for v in sent), produced, *given_, *sent)


@given(length=st.integers(1, 300), seed=seeds, codec=st.sampled_from([TopK(0.02), TopK(0.3), Sign(), Int8()]))
def test_residuals_stay_bounded(length: int, seed: int, codec: Codec) -> None:
    """By the geometric series of what a contraction leaves: sqrt(1-d) / (1 - sqrt(1-d)) times the largest vector."""
    kept = codec.kept(length) if isinstance(codec, TopK) else 1  # at worst one element's worth, of signs too
    share = math.sqrt(length) / 254 if isinstance(codec, Int8) else math.sqrt(1 - kept / length)
    stream = Stream(codec)
    for n in range(6):
        vector = made("normal", length, seed + n)
        stream.encode(vector / vector.norm())
        assert float(stream.residual.norm()) <= share / (1 - share) + 1e-5


@pytest.mark.parametrize("codec", CONTRACTING, ids=named)
def test_residuals_do_not_grow_with_time(codec: Codec) -> None:
    stream, norms = Stream(codec), []
    for n in range(150):
        stream.encode(made("normal", 200, n), weights=torch.ones(200))
        norms.append(float(stream.residual.norm()))
    assert max(norms[100:]) <= 1.5 * max(norms[50:100]) + 1e-6


def test_feedback_carries_what_was_left_out_and_only_if_asked() -> None:
    vector = torch.tensor([4.0, 3.0, 2.0, 1.0])
    stream, forgetful = Stream(TopK(0.25)), Stream(TopK(0.25), feedback=False)
    decoded = [stream.codec.decode(stream.encode(vector), 4).tolist() for _ in range(3)]
    assert decoded == [[4, 0, 0, 0], [0, 6, 0, 0], [8, 0, 0, 0]]  # twice 4 by then
    assert stream.residual.tolist() == [0, 3, 6, 3]
    assert [forgetful.codec.decode(forgetful.encode(vector), 4).tolist() for _ in range(2)] == [[4, 0, 0, 0]] * 2
    assert forgetful.residual is None and forgetful.flush() is None
    stream.rescale(0.5)
    assert stream.residual.tolist() == [0, 1.5, 3, 1.5]


def test_a_lost_message_counts_without_feedback_too() -> None:
    stream, vector = Stream(Int8(), feedback=False), made("normal", 40, 1)
    lost = stream.encode(vector)
    stream.credit(lost)
    again = Int8().decode(stream.encode(torch.zeros(40)), 40)
    assert torch.allclose(again, vector, atol=float(vector.abs().max()) / 100)
    assert stream.residual is None


def test_each_link_has_its_own_residual() -> None:
    codec, vector = TopK(0.1), made("normal", 50, 1)
    one, other = Stream(codec), Stream(codec)
    one.encode(vector)
    one.encode(vector)
    other.encode(vector)
    assert not torch.equal(one.residual, other.residual)


def test_what_streams_refuse() -> None:
    for codec in (RandomK(0.1, unbiased=True), Qsgd(4), Chain(TopK(0.1), Qsgd(4))):
        with pytest.raises(InputError, match="residuals would grow"):
            Stream(codec)
        Stream(codec, feedback=False)
    stream = Stream(Int8())
    with pytest.raises(ValueError, match="lost nothing"):
        stream.credit(Int8().encode(torch.ones(3)))
    stream.encode(torch.ones(3))
    with pytest.raises(ValueError, match="stream of vectors of 3"):
        stream.encode(torch.ones(4))
    with pytest.raises(ValueError):
        stream.credit(Int8().encode(torch.ones(9)))


def test_streams_draw_anew_for_every_message_and_alike_on_all_nodes() -> None:
    codec, vector = RandomK(0.1), made("normal", 300, 1)
    one, other = Stream(codec, feedback=False), Stream(codec, feedback=False)
    first, second = one.encode(vector), one.encode(vector)
    assert not torch.equal(codec.held(first, 300), codec.held(second, 300))
    assert torch.equal(other.encode(vector), first) and torch.equal(other.encode(vector), second)


def test_low_rank_streams_start_from_the_message_before() -> None:
    vector, stream = made("normal", 2500, 3), Stream(PowerSgd(2), feedback=False)
    errors = [float((stream.codec.decode(stream.encode(vector), 2500) - vector).norm()) for _ in range(20)]
    assert errors[-1] < errors[0]


def test_the_significance_filter_is_a_stream_with_the_accumulated_change_as_residual() -> None:
    stream, weights = Stream(Significant(0.1)), torch.tensor([1.0, 100.0, 100.0])
    change = torch.tensor([0.2, 4.0, 1.0])
    decoded = [
        stream.codec.decode(stream.encode(change, weights=weights, threshold=0.1 / math.sqrt(t)), 3).tolist()
        for t in (1, 2, 3)
    ]
    assert decoded[0] == pytest.approx([0.2, 0, 0])
    assert decoded[1] == pytest.approx([0.2, 8.0, 2.0])  # two of three are significant: all cross
    assert decoded[2] == pytest.approx([0.2, 0, 0])


@given(
    length=st.integers(1, 300),
    seed=seeds,
    momentum=st.floats(0, 0.99),
    nesterov=st.booleans(),
    ratio=st.floats(0.001, 1),
)
def test_dgc_is_the_published_recursion(length: int, seed: int, momentum: float, nesterov: bool, ratio: float) -> None:
    stream = DgcStream(TopK(ratio), momentum=momentum, nesterov=nesterov, warmup=())
    u = v = total_added = total_sent = torch.zeros(length)
    for n in range(4):
        g = made("normal", length, seed + n)
        u = momentum * (u + g) if nesterov else momentum * u + g
        added = u + g if nesterov else u
        v, total_added = v + added, total_added + added
        payload = stream.encode(g)
        kept = stream.codec.held(payload, length)  # type: ignore[attr-defined]
        decoded = stream.codec.decode(payload, length)
        assert torch.allclose(decoded[kept], v[kept], rtol=1e-4, atol=1e-5)
        u, v, total_sent = u.clone(), v.clone(), total_sent + decoded
        u[kept], v[kept] = 0, 0
        assert torch.allclose(stream.velocity, u, rtol=1e-4, atol=1e-5)
        assert not stream.velocity[kept].any()
    assert torch.allclose(total_sent + stream.residual, total_added, rtol=1e-4, atol=1e-4)
    dense = stream.flush()
    assert torch.allclose(total_sent + Dense().decode(dense, length), total_added, rtol=1e-4, atol=1e-4)
    assert not stream.velocity.any() and not stream.residual.any()


def test_dgc_warms_up_by_epoch_and_clips_before_it_adds() -> None:
    stream, gradient = DgcStream(clip=1.0, workers=4), torch.ones(10_000)
    densities = []
    for epoch in range(7):
        stream.epoch = epoch
        densities.append(stream.codec.nbytes(10_000))
    assert densities == [TopK(r).nbytes(10_000) for r in (0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001, 0.001)]
    stream.encode(gradient)
    assert float(stream.velocity.max()) == pytest.approx(0.5 / 100)  # 10,000 equal ones of norm 1 / sqrt(4)
    assert DgcStream().encode(Phantom(10_000)).nbytes == TopK(0.25).nbytes(10_000)


def test_dgc_with_coded_values_keeps_what_rounding_loses() -> None:
    stream = DgcStream(Chain(TopK(0.05), Int8()), momentum=0.0, warmup=())
    given_ = series(["normal"] * 6, 200, 1)
    sent = [stream.codec.decode(stream.encode(g), 200) for g in given_]
    assert torch.allclose(sum(sent) + stream.residual, sum(given_), atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DgcStream(Int8()),  # type: ignore[arg-type]
        lambda: DgcStream(momentum=1.0),
        lambda: DgcStream(clip=0.0),
        lambda: DgcStream(workers=0),
        lambda: DgcStream(warmup=(2.0,)),
    ],
)
def test_what_dgc_refuses(wrong: Any) -> None:
    with pytest.raises(InputError):
        wrong()


RING = {i: {str((i - 1) % 5): 1 / 3, str((i + 1) % 5): 1 / 3} for i in range(5)}


def gossip(codec: Codec, models: list[Any], rounds: int, gamma: float | None = None) -> list[Any]:
    """A ring of five that only mixes; copies are compared bit for bit in every round."""
    initial = torch.zeros(len(models[0]))
    nodes = [Choco(codec, initial, RING[i]) for i in range(5)]
    for _ in range(rounds):
        payloads = [node.difference(x) for node, x in zip(nodes, models, strict=True)]
        for i, node in enumerate(nodes):
            for j in RING[i]:
                node.receive(j, payloads[int(j)])
                assert torch.equal(node.copies[j], nodes[int(j)].own)
        models = [node.mix(x, RING[i], gamma) for i, (node, x) in enumerate(zip(nodes, models, strict=True))]
    return models


def disagreement(models: list[Any]) -> float:
    stacked = torch.stack(models).double()
    return float((stacked - stacked.mean(0)).norm())


@pytest.mark.parametrize(
    "word",
    [
        "none",
        "float16",
        "int8",
        "int4",
        "fp4",
        "sign",
        "qsgd:127",
        "topk:0.1",
        "randomk:0.1",
        "powersgd:2",
        "topk:0.1+int8",
    ],
)
def test_gossip_of_differences_agrees_on_the_mean(word: str) -> None:
    models = series(["normal"] * 5, 400, 1)
    mixed = gossip(make_codec(word), models, 120)
    before, after = torch.stack(models).double().mean(0), torch.stack(mixed).double().mean(0)
    assert torch.allclose(before, after, atol=1e-4)
    assert disagreement(mixed) < 0.2 * disagreement(models)


@given(length=st.integers(1, 100), seed=seeds, codec=st.sampled_from([Int8(), TopK(0.2), Sign(), Qsgd(), Half()]))
def test_mixing_keeps_the_mean_and_copies_are_equal(length: int, seed: int, codec: Codec) -> None:
    models = series(["normal"] * 5, length, seed)
    mixed = gossip(codec, models, 5, gamma=0.1)
    assert torch.allclose(torch.stack(models).mean(0), torch.stack(mixed).mean(0), atol=1e-5)


def test_models_rounded_directly_never_reach_the_mean_and_differences_do() -> None:
    """Why gossip is refused raw parameters: the floor of the one, and none of the other."""
    models = series(["normal"] * 5, 400, 1)
    raw, codec = models, make_codec("int4")
    for _ in range(80):
        sent = {str(j): codec.decode(codec.encode(x), 400) for j, x in enumerate(raw)}
        raw = [x + sum(w * (sent[j] - x) for j, w in RING[i].items()) for i, x in enumerate(raw)]
    mean = torch.stack(models).mean(0)
    error = [float((torch.stack(end) - mean).norm()) for end in (gossip(codec, models, 80), raw)]
    assert error[0] < 1e-4 < 1 < error[1]


def test_members_come_and_go_and_nonsense_changes_nothing() -> None:
    node, other = Choco(Int8(), torch.zeros(10), ["b"]), Choco(Int8(), torch.zeros(10), [])
    payload = other.difference(torch.ones(10))
    node.receive("b", payload)
    for wrong in (payload[:-1], Half().encode(torch.ones(10))):
        with pytest.raises(ValueError):
            node.receive("b", wrong)
    assert torch.equal(node.copies["b"], other.own)
    with pytest.raises(ValueError, match="adopt"):
        node.receive("c", payload)
    node.adopt("c", other.own)
    assert torch.equal(node.copies["c"], other.own)
    node.leave("c")
    with pytest.raises(ValueError, match="adopt"):
        node.mix(torch.ones(10), {"c": 0.5})


def test_gossip_of_weights_alone_and_what_it_refuses() -> None:
    node = Choco(Int8(), Phantom(1000), ["b"])
    payload = node.difference(Phantom(1000))
    assert payload.nbytes == Int8().nbytes(1000)
    node.receive("b", payload)
    assert len(node.mix(Phantom(1000), {"b": 0.5})) == 1000
    for codec in (Significant(0.1), RandomK(0.1, unbiased=True), Qsgd(3)):
        with pytest.raises(InputError, match="gossip cannot"):
            Choco(codec, torch.zeros(3), [])
    assert default_gamma(TopK(0.01)) == pytest.approx(0.02) and default_gamma(Sign()) == 0.4
