"""Coded gradients: nothing is lost on any link, both ends agree on a codec, and what crosses still teaches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case

from littoral.errors import InputError
from littoral.events import Sent
from littoral.learning.task import Recipe
from littoral.planning.plan import Server
from littoral.strategies.parameter_server import ParameterServer
from littoral.strategies.pushes import DGC_MOMENTUM, Pushes, push_codec
from littoral.testing import check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.node import Gradient
from littoral.worlds.processes.launch import Forge

CODECS = ["float16", "int8", "fp4", "sign", "topk:0.1", "topk:0.1+int8", "powersgd:2", "maxn:10"]


def worker_node(length: int, cuts: list[int]) -> Any:
    ends = [0, *sorted(cuts), length]
    servers = tuple(
        Server(name=f"ps-{i}", device="hub", start=a, stop=b) for i, (a, b) in enumerate(pairwise(ends)) if a < b
    )
    return SimpleNamespace(name="w-1", plan=SimpleNamespace(servers=servers))


@given(
    codec=st.sampled_from(CODECS), length=st.integers(8, 200), cuts=st.lists(st.integers(1, 199), max_size=2),
    batches=st.lists(st.integers(1, 64), min_size=1, max_size=6), seed=st.integers(0, 999),
)  # fmt: skip
def test_what_was_sent_and_what_is_owed_is_what_was_produced(
    codec: str, length: int, cuts: list[int], batches: list[int], seed: int
) -> None:
    """On every link, in units of summed gradients, whatever the batches."""
    node = worker_node(length, [cut for cut in cuts if cut < length])
    pushes, dice = Pushes(codec, node), torch.Generator().manual_seed(seed)
    produced, sent = torch.zeros(length), torch.zeros(length)
    for samples in batches:
        vector = torch.randn(length, generator=dice)
        produced += samples * vector
        for name, payload in pushes.encode(Gradient(vector, samples, None, None)).items():
            server = next(server for server in node.plan.servers if server.name == name)
            place = slice(server.start, server.stop)
            sent[place] += samples * push_codec(codec, node, "w-1", server).decode(payload, server.stop - server.start)
    for server in node.plan.servers:
        sent[server.start : server.stop] += batches[-1] * pushes._streams[server.name].residual
    assert torch.allclose(sent, produced, atol=1e-3 * float(produced.abs().max()) + 1e-3)


def test_a_codec_that_loses_nothing_changes_nothing() -> None:
    """All of a vector crosses later than before, by its header, so only what was learnt is compared."""
    runs = [simulate(small_job(strategy="parameter_server", mode="bsp", codec=word)) for word in ("none", "topk:1.0")]
    assert runs[0].accuracies == pytest.approx(runs[1].accuracies, abs=1e-6) and len(runs[0].accuracies) > 2


@pytest.mark.parametrize("codec", ["int8", "topk:0.05", "powersgd:2", "sign", "dgc", "auto"])
def test_what_crosses_is_smaller_and_still_teaches(codec: str) -> None:
    job = small_job(strategy="parameter_server", mode="ssp", epochs=12)
    plain = simulate(job)
    coded = simulate(replace(job, parameters={**job.parameters, "codec": codec}, continuum=_slow()))
    assert max(coded.accuracies) > max(plain.accuracies) - 0.05
    sizes = [[event.size for event in story.of(Sent) if event.message == "Push"] for story in (plain, coded)]
    assert sum(sizes[1]) / len(sizes[1]) < 0.8 * sum(sizes[0]) / len(sizes[0])


def _slow() -> Any:
    return small_continuum(bandwidth=5e3)


def test_auto_suits_each_link() -> None:
    """The far worker's link carries little: its gradients are coded harder, and the server reads them."""
    case = Case(
        speeds=(50.0,) * 4, far=(False, False, False, True), wan=2e3, wan_latency_s=0.01, jitter=0.0, planner="fair",
        seed=0, faults=(),
    )  # fmt: skip
    story = simulate(case.job("parameter_server", epochs=1, mode="asp", codec="auto"))
    sizes = {event.source: event.size for event in story.of(Sent) if event.message == "Push"}
    assert sizes["w-4"] < sizes["w-1"] / 2


def test_dgc_moves_momentum_to_the_workers() -> None:
    recipe = Recipe(lr=0.1, momentum=0.8, nesterov=True)
    served = ParameterServer(codec="dgc").tune(recipe, 4)
    assert served.momentum == 0.0 and not served.nesterov
    assert served.lr / (1 - DGC_MOMENTUM) == pytest.approx(recipe.lr / (1 - recipe.momentum))


def test_what_is_no_codec_is_refused() -> None:
    with pytest.raises(InputError, match="zip"):
        ParameterServer(codec="zip")


@pytest.mark.parametrize("codec", ["int8", "dgc", "auto"])
def test_it_keeps_the_contract(codec: str) -> None:
    check_strategy("parameter_server", codec=codec, servers=2)
    check_strategy("parameter_server", [fail_at("w-2", 0.6, back_after_s=1.5)], codec=codec, mode="ssp")


def test_it_keeps_the_contract_with_real_processes(forge: Forge) -> None:
    check_strategy("parameter_server", run=lambda job: live(job, launcher=forge), codec="auto")
