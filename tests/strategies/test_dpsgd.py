"""D-PSGD: what mixing keeps, on any topology and through any codec, and what it coincides with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from spy import Case, cases, spied

from littoral.errors import InputError
from littoral.learning.task import load_task
from littoral.planning.mixing import contraction, matrix
from littoral.planning.planner import make_plan
from littoral.planning.topology import Topology, without_links
from littoral.strategies import dpsgd
from littoral.strategies.dpsgd import Dpsgd
from littoral.strategies.gossip import Coded, GossipModel
from littoral.strategies.strategy import make_strategy
from littoral.testing import MemoryKeeper, Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

BOTH_WAYS = ["ring", "complete", "star", "torus", "ring-based", "site-tree", "base-k", "fast-links"]
TOPOLOGIES = [*BOTH_WAYS, "exponential", "one-peer-exponential"]
CODECS = ["float16", "int8", "fp4", "sign", "topk:0.2", "topk:0.1+int8", "qsgd:127"]

STARTS: dict[str, list[torch.Tensor]] = defaultdict(list)  # of every node, its model when a round began


class Still:
    """A node whose model begins at a place of its own and is not moved by gradients; its rounds are written down."""

    def __init__(self, node: Any) -> None:
        self._node = node
        dice = torch.Generator().manual_seed(sum(map(ord, node.name)))
        node.model.load(torch.randn(len(node.model.vector), generator=dice))
        STARTS[node.name] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    @property
    def generation(self) -> int:
        return self._node.generation + 1  # models differ, as in a group that has changed

    async def compute(self) -> Any:
        STARTS[self._node.name].append(self._node.model.snapshot())
        return await self._node.compute()

    async def update(self, *_: Any) -> None:
        """No step is ever taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillDpsgd(Dpsgd):
    """D-PSGD with a learning rate of nought."""

    name: ClassVar[str] = "still_dpsgd"

    async def worker(self, node: Any) -> None:
        await Dpsgd.worker(self, Still(node))


def starts(members: list[str]) -> list[np.ndarray]:
    """Per round that everybody began, one row per member."""
    rounds = min(len(STARTS[member]) for member in members)
    return [np.stack([STARTS[member][k].double().numpy() for member in members]) for k in range(rounds)]


def spread(models: np.ndarray) -> float:
    return float(np.linalg.norm(models - models.mean(axis=0)))


def check_mixing(topology: Topology) -> list[np.ndarray]:
    """X of the next round is W X, whose sums are one, so that the mean stays and disagreement shrinks by ||W - J||."""
    rounds = starts(list(topology.nodes))
    assert len(rounds) > 1
    for k in range(len(rounds) - 1):
        weights = matrix(topology.rounds[k % topology.period])
        np.testing.assert_allclose(weights.sum(axis=0), 1.0)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        np.testing.assert_allclose(rounds[k + 1], weights @ rounds[k], atol=1e-5)
        np.testing.assert_allclose(rounds[k + 1].mean(axis=0), rounds[0].mean(axis=0), atol=1e-5)
        assert spread(rounds[k + 1]) <= contraction(weights) * spread(rounds[k]) + 1e-4
    return rounds


@given(
    case=cases(), topology=st.sampled_from(TOPOLOGIES), adapt=st.sampled_from(["after", "before"]), data=st.data()
)  # fmt: skip
def test_mixing_keeps_the_mean_and_contracts_as_the_weights_say(
    case: Case, topology: str, adapt: str, data: st.DataObject
) -> None:
    """Invariants 1, 2 and 8 (some links drop out of the first round, if they carry models both ways, and their weight
    stays at both ends); and 4: after a period, base-k (and one-peer-exponential among 2^a) is at the exact mean."""
    job = case.job("test_dpsgd:StillDpsgd", epochs=1, samples=48, topology=topology, adapt=adapt)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    wired, dropped = plan.topology, []
    if wired.is_symmetric:
        links = sorted(arc for arc in wired.arcs() if arc[0] < arc[1])
        dropped = data.draw(st.lists(st.sampled_from(links), unique=True, max_size=3))
        wired = replace(wired, rounds=(without_links(wired.rounds[0], dropped), *wired.rounds[1:]))
    assert simulate(job, plan=replace(plan, topology=wired)).reason == "epochs"
    rounds, n = check_mixing(wired), len(wired.nodes)
    if not dropped and (topology == "base-k" or (topology == "one-peer-exponential" and not n & (n - 1))):
        assert len(rounds) <= wired.period or spread(rounds[wired.period]) < 1e-4


COPIES: dict[tuple[str, str, int], torch.Tensor] = {}  # sender, receiver, round: the copy at the sender
HELD: dict[tuple[str, str, int], torch.Tensor] = {}  # the same, at the receiver


class WatchedCopies(Coded):
    """Writes down both ends' copies of a round."""

    async def offer(self, number: int) -> None:
        await super().offer(number)
        for peer in self._rows[number % len(self._rows)].gives:
            COPIES[self._node.name, peer, number] = self._choco[peer].own.clone()

    async def mixed(self, number: int) -> Any:
        mixed = await super().mixed(number)
        for peer in self._rows[number % len(self._rows)].takes:
            HELD[peer, self._node.name, number] = self._choco[peer].copies[peer].clone()
        return mixed


@given(
    case=cases(), topology=st.sampled_from(TOPOLOGIES), codec=st.sampled_from([*CODECS, "auto"]),
    adapt=st.sampled_from(["after", "before"]), gamma=st.sampled_from([None, 0.3, 1.0]),
)  # fmt: skip
def test_both_ends_hold_the_same_copies_and_the_mean_stays(
    case: Case, topology: str, codec: str, adapt: str, gamma: float | None
) -> None:
    """Compression's invariant 9, also with a codec per link and in rounds that differ."""
    assume(codec != "auto" or topology in BOTH_WAYS)
    COPIES.clear()
    HELD.clear()
    settings = {"topology": topology, "codec": codec, "adapt": adapt, "gamma": gamma}
    with patch.object(dpsgd, "Coded", WatchedCopies):
        log = spied(case.job("test_dpsgd:StillDpsgd", epochs=1, samples=48, **settings))
    assert log.story.reason == "epochs" and HELD
    assert all(torch.equal(copy, COPIES[link]) for link, copy in HELD.items())
    rounds = starts([worker.name for worker in log.story.plan.workers])
    for models in rounds[1:]:
        rounding = 1e-5 * max(1.0, np.abs(models).max())  # a gamma that is too large lets models grow
        np.testing.assert_allclose(models.mean(axis=0), rounds[0].mean(axis=0), atol=10 * rounding)


AGREEING = [
    ("ring", "int8"),
    ("ring", "auto"),
    ("base-k", "sign"),
    ("base-k", "int8"),
    ("one-peer-exponential", "sign"),
    ("one-peer-exponential", "topk:0.1"),
]


@pytest.mark.parametrize(("topology", "codec"), AGREEING)
def test_compressed_gossip_comes_to_agree(topology: str, codec: str) -> None:
    """Directly rounded models never do: they stay apart by what rounding takes off, however long they mix."""
    job = small_job(
        strategy="test_dpsgd:StillDpsgd", continuum=small_continuum([50.0] * 5, bandwidth=2e3), planner="fair",
        epochs=5, task={"samples": 300, "batch": 2}, topology=topology, codec=codec,
    )  # fmt: skip
    plan = simulate(job).plan
    rounds = starts([worker.name for worker in plan.workers])
    assert len(rounds) >= 150
    assert spread(rounds[-1]) < 0.1 * spread(rounds[0])


def test_auto_gives_slow_links_smaller_messages() -> None:
    case = Case(
        speeds=(50.0,) * 4, far=(False, False, True, True), wan=2e3, wan_latency_s=0.01, jitter=0.0, planner="fair",
        seed=0, faults=(),
    )  # fmt: skip
    log = spied(case.job("dpsgd", epochs=1, topology="ring", codec="auto"), timing_only=True)
    sizes = {(act.node, act.peer): act.what.vector.nbytes for act in log.of("send", GossipModel)}
    near, far = sizes["w-1", "w-2"], sizes["w-2", "w-3"]
    assert far < near / 4
    assert sizes["w-3", "w-2"] == far and sizes["w-3", "w-4"] == near


SETTINGS = st.fixed_dictionaries(
    {
        "topology": st.sampled_from(BOTH_WAYS),
        "codec": st.sampled_from(["none", "auto", "int8", "topk:0.01+int8"]),
        "adapt": st.sampled_from(["after", "before"]),
    }
)


@given(case=cases(crashes=True), settings=SETTINGS)
def test_neighbours_go_in_step_whoever_dies(case: Case, settings: dict) -> None:
    """Every sample counts once, and nobody begins a round before it has all of the one before."""
    log = spied(case.job("dpsgd", **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    heard: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    everyone = len(log.story.plan.workers)
    for act in log.acts:
        if act.kind == "received":
            heard[act.node, act.generation].add((act.peer, act.what.round))
        elif act.kind == "send" and settings["topology"] != "base-k" and act.what.round > 0:
            assert (act.peer, act.what.round - 1) in heard[act.node, act.generation]
        if act.kind == "send" and act.generation == 1 and settings["topology"] == "complete":
            before = {peer for peer, number in heard[act.node, 1] if number == act.what.round - 1}
            assert act.what.round == 0 or len(before) == everyone - 1


def mean_model(story: Story) -> torch.Tensor:
    return torch.stack([story.session.nodes[w.name].model.vector for w in story.plan.workers]).mean(dim=0)


@pytest.mark.parametrize("workers", [2, 4])
def test_on_the_complete_graph_it_is_synchronous_sgd(workers: int) -> None:
    """Invariant 7: step, then average with everybody; also through a codec that loses nothing."""

    def job(strategy: str, **settings: Any) -> Any:
        task = {"samples": 8 * workers * 12, "batch": 8}
        continuum = small_continuum([50.0] * workers)
        return small_job(strategy=strategy, planner="fair", continuum=continuum, task=task, **settings)

    expected = mean_model(simulate(job("allreduce")))
    for codec in ("none", "auto"):
        story = simulate(job("dpsgd", topology="complete", adapt="before", codec=codec, boost=4))
        torch.testing.assert_close(mean_model(story), expected, atol=1e-5, rtol=1e-4)


def test_a_lossless_codec_changes_nothing() -> None:
    """Compression's invariant 5: copies are models then."""
    runs = [
        simulate(small_job(strategy="dpsgd", workers=4, **settings))
        for settings in ({}, {"codec": "topk:1.0", "gamma": 1.0})
    ]
    torch.testing.assert_close(*(mean_model(story) for story in runs), atol=1e-5, rtol=1e-4)


class FirstKeeper(MemoryKeeper):
    """Keeps the first checkpoint, as if the run had been killed before the second."""

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        if self.saved is None:
            super().save(tensors, metadata)


def test_a_resumed_group_begins_from_common_copies() -> None:
    """Models in a checkpoint differ, and copies must not."""
    keeper = FirstKeeper()
    job = small_job(strategy="dpsgd", workers=4, codec="int8", epochs=4)
    simulate(job, keeper=keeper)
    COPIES.clear()
    HELD.clear()
    with patch.object(dpsgd, "Coded", WatchedCopies):
        resumed = simulate(job, keeper=keeper, resume=True)
    assert resumed.reason == "epochs" and HELD
    assert all(torch.equal(copy, COPIES[link]) for link, copy in HELD.items())


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"adapt": "during"}, "adapt"),
        ({"weights": "heavy"}, "weights"),
        ({"degree": 0}, "degree"),
        ({"codec": "zip"}, "codec"),
        ({"codec": "qsgd:1"}, "gossip cannot use"),
        ({"codec": "int8", "gamma": 0}, "gamma"),
        ({"codec": "int8", "gamma": 1.5}, "gamma"),
        ({"gamma": 0.5}, "gamma without a codec"),
        ({"codec": "auto", "topology": "exponential"}, "exponential"),
    ],
)
def test_bad_settings_are_refused_with_a_remedy(settings: dict, word: str) -> None:
    with pytest.raises(InputError, match=word) as refused:
        make_strategy("dpsgd", settings)
    assert refused.value.remedy


def test_an_unknown_topology_is_refused_when_planning() -> None:
    with pytest.raises(InputError, match="moebius"):
        simulate(small_job(strategy="dpsgd", topology="moebius"))


CONTRACT: list[dict[str, Any]] = [{}, {"topology": "base-k", "adapt": "before"}, {"codec": "int8"}, {"codec": "auto"}]


@pytest.mark.parametrize("settings", CONTRACT)
def test_it_keeps_the_contract(settings: dict[str, Any]) -> None:
    check_strategy("dpsgd", **settings)
    check_strategy("dpsgd", [fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


def test_it_keeps_the_contract_with_real_processes(forge: Forge) -> None:
    check_strategy("dpsgd", run=lambda job: live(job, launcher=forge), codec="int8")
