"""SGP: mass is conserved, weights stay positive, everybody comes to the mean; and it is D-PSGD where it should be."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, cases, spied

from littoral.errors import InputError
from littoral.planning.planner import make_plan
from littoral.planning.topology import Topology, check
from littoral.strategies import sgp
from littoral.strategies.sgp import Arrivals, PushedShare, Sgp
from littoral.strategies.strategy import make_strategy
from littoral.testing import Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

START: dict[str, np.ndarray] = {}
READS: dict[str, list[np.ndarray]] = defaultdict(list)  # of every node, its model when a round began
TAKEN: dict[str, list[list[PushedShare]]] = defaultdict(list)  # of every node, what it added in each round


class Still:
    """A node whose model begins at a place of its own and is not moved by gradients."""

    def __init__(self, node: Any) -> None:
        self._node = node
        dice = torch.Generator().manual_seed(sum(map(ord, node.name)))
        vector = torch.randn(len(node.model.vector), generator=dice)
        node.model.load(vector)
        START[node.name], READS[node.name], TAKEN[node.name] = vector.double().numpy(), [], []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def compute(self) -> Any:
        READS[self._node.name].append(self._node.model.snapshot().double().numpy())
        return await self._node.compute()

    async def update(self, *_: Any) -> None:
        """No step is ever taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillSgp(Sgp):
    """SGP with a learning rate of nought."""

    name: ClassVar[str] = "still_sgp"

    async def worker(self, node: Any) -> None:
        await Sgp.worker(self, Still(node))


class WatchedArrivals(Arrivals):
    """Writes down what is added in which round."""

    async def due(self, number: int, senders: Any) -> list[Any]:
        taken = await super().due(number, senders)
        TAKEN[self._node.name].append(taken)
        return taken


def uneven(nodes: list[str], seed: int, rounds: int = 2) -> Topology:
    """Directed links at random, a ring among them; everyone keeps a share and deals out the rest unevenly."""
    dice = random.Random(seed)
    period = []
    for _ in range(rounds):
        weights: dict[str, dict[str, float]] = {node: {} for node in nodes}
        for i, node in enumerate(nodes):
            targets = {node, nodes[(i + 1) % len(nodes)], *dice.sample(nodes, dice.randint(0, len(nodes)))}
            shares = {target: dice.uniform(0.05, 1.0) for target in sorted(targets)}
            for target, share in shares.items():
                weights[target][node] = share / sum(shares.values())
        period.append(weights)
    found = Topology(name="uneven", rounds=tuple(period))
    check(found, "column")
    return found


def run_still(job: Any, seed: int | None) -> Log:
    """With the plan's topology, or one whose shares are uneven."""

    def planned(*arguments: Any) -> Any:
        plan = make_plan(*arguments)
        return plan if seed is None else replace(plan, topology=uneven([w.name for w in plan.workers], seed))

    START.clear()
    with patch("spy.make_plan", planned), patch.object(sgp, "Arrivals", WatchedArrivals):
        return spied(job)


@given(
    case=cases(), overlap=st.integers(0, 3), seed=st.none() | st.integers(0, 10**6),
    topology=st.sampled_from(["one-peer-exponential", "exponential", "ring", "base-k"]),
)  # fmt: skip
def test_mass_is_conserved_and_weights_stay_positive(case: Case, overlap: int, seed: int | None, topology: str) -> None:
    """Invariants 1 to 3: every share is added once, neither before its round nor more than ``overlap`` rounds late."""
    job = case.job("test_sgp:StillSgp", epochs=1, samples=48, topology=topology, overlap=overlap)
    log = run_still(job, seed)
    assert log.story.reason == "epochs"
    wired = log.story.plan.topology
    sent = {(a.node, a.peer, a.what.round): a.what for a in log.of("send", PushedShare)}
    left, route = dict(sent), {id(share): key for key, share in sent.items()}
    x, w = dict(START), dict.fromkeys(START, 1.0)
    for node in wired.nodes:
        for number in range(len(READS[node])):
            np.testing.assert_allclose(READS[node][number], x[node] / w[node], atol=1e-4)
            weights = wired.rounds[number % wired.period]
            receivers = wired.receivers(node, number)
            if any((node, peer, number) not in sent for peer in receivers):
                break  # the run ended in this round
            for peer in receivers:
                share = sent[node, peer, number]
                assert share.weight == pytest.approx(weights[peer][node] * w[node])
                np.testing.assert_allclose(share.vector.double().numpy(), weights[peer][node] * x[node], atol=1e-4)
            x[node], w[node] = x[node] * weights[node][node], w[node] * weights[node][node]
            assert w[node] > 0
            if number == len(TAKEN[node]):
                break  # or while it waited
            for share in TAKEN[node][number]:
                assert number - overlap <= share.round <= number
                del left[route[id(share)]]
                x[node], w[node] = x[node] + share.vector.double().numpy(), w[node] + share.weight
            late = number - overlap
            assert late < 0 or not any((sender, node, late) in left for sender in wired.senders(node, late))
    assert sum(w.values()) + sum(share.weight for share in left.values()) == pytest.approx(len(wired.nodes))
    mass = sum(x.values()) + sum(share.vector.double().numpy() for share in left.values())
    np.testing.assert_allclose(mass, sum(START.values()), atol=1e-3)


@pytest.mark.parametrize("overlap", [0, 2])
def test_everybody_comes_to_the_mean_though_some_receive_more(overlap: int) -> None:
    """Invariant 3."""
    job = small_job(
        strategy="test_sgp:StillSgp", continuum=small_continuum([50.0, 30.0, 50.0, 40.0, 50.0]), planner="fair",
        epochs=3, task={"samples": 300, "batch": 4}, overlap=overlap,
    )  # fmt: skip
    log = run_still(job, 3)
    wired = log.story.plan.topology
    rows = [sum(row.values()) for row in wired.rounds[0].values()]
    assert max(rows) > 1.2 and min(rows) < 0.8  # so that plain averaging would go elsewhere
    mean = sum(START.values()) / len(START)
    for node in START:
        np.testing.assert_allclose(READS[node][-1], mean, atol=1e-3)


@given(
    case=cases(crashes=True), overlap=st.integers(0, 3), topology=st.sampled_from(["one-peer-exponential", "base-k"])
)
def test_every_sample_counts_once_whoever_dies(case: Case, overlap: int, topology: str) -> None:
    """A group that has changed begins again with all weights 1."""
    log = spied(case.job("sgp", overlap=overlap, topology=topology), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    for act in log.of("send", PushedShare):
        assert 0 < act.what.weight < len(log.story.plan.workers)
        assert overlap or act.what.weight <= 1.0  # where nothing is late, weights are 1 and shares smaller


def models(story: Story) -> torch.Tensor:
    return torch.stack([story.session.nodes[worker.name].model.vector for worker in story.plan.workers])


@pytest.mark.parametrize("topology", ["ring", "base-k", "one-peer-exponential", "complete"])
def test_with_doubly_stochastic_shares_it_is_dpsgd_that_adapts_before(topology: str) -> None:
    """Weights are 1 then, and pushing after a step is mixing after a step."""
    task = {"samples": 8 * 5 * 6, "batch": 8}
    job = small_job(strategy="sgp", continuum=small_continuum([50.0] * 5), planner="fair", task=task, topology=topology)
    pushed, mixed = (
        simulate(job),
        simulate(replace(job, strategy="dpsgd", parameters={"topology": topology, "adapt": "before"})),
    )
    torch.testing.assert_close(models(pushed).mean(dim=0), models(mixed).mean(dim=0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(models(pushed), models(mixed), atol=1e-5, rtol=1e-4)


def test_overlap_hides_slow_links() -> None:
    job = small_job(strategy="sgp", continuum=small_continuum([50.0] * 4, bandwidth=1e4), planner="fair")
    times = [simulate(replace(job, parameters={"overlap": overlap}), timing_only=True).time_s for overlap in (0, 1, 2)]
    assert times[0] > 1.2 * times[1] >= times[2]


@pytest.mark.parametrize("settings", [{"overlap": -1}, {"overlap": 1.5}, {"degree": 0}, {"weights": "heavy"}])
def test_bad_settings_are_refused_with_a_remedy(settings: dict) -> None:
    with pytest.raises(InputError, match=next(iter(settings))) as refused:
        make_strategy("sgp", settings)
    assert refused.value.remedy


@pytest.mark.parametrize("settings", [{}, {"overlap": 2}, {"topology": "ring"}])
def test_it_keeps_the_contract(settings: dict[str, Any]) -> None:
    check_strategy("sgp", **settings)
    check_strategy("sgp", [fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


def test_it_keeps_the_contract_with_real_processes(forge: Forge) -> None:
    check_strategy("sgp", run=lambda job: live(job, launcher=forge), overlap=1)
