"""What strategies whose workers hold models of their own have in common: averaging, steps, membership."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from spy import Case, cases, spied

from littoral.strategies.groups import GroupMean, average
from littoral.strategies.peers import Peers, step

OWN = [("local_sgd", {"period": 3}), ("dpsgd", {"topology": "ring"})]


@pytest.mark.parametrize(("strategy", "settings"), OWN)
@given(case=cases(crashes=True))
def test_every_sample_counts_once_whoever_dies(strategy: str, settings: dict, case: Case) -> None:
    log = spied(case.job(strategy, **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []


@given(case=cases(least=3))
def test_group_average_moves_the_bytes_of_a_collective(case: Case) -> None:
    log = spied(case.job("local_sgd", period=2, epochs=1), timing_only=True)
    members = len(log.story.plan.workers)
    vector = log.story.session.nodes[log.story.plan.workers[0].name].model.vector
    for worker in log.story.plan.workers:
        sent = [act.what.vector for act in log.of("send") if act.node == worker.name]
        rounds = sum(isinstance(act.what, GroupMean) for act in log.of("send") if act.node == worker.name)
        whole = rounds // (members - 1)
        if len(sent) == 2 * whole * (members - 1):  # the last meeting is cut short by the end of the run
            expected = whole * 2 * (members - 1) / members * len(vector)
            assert abs(sum(len(part) for part in sent) - expected) <= 2 * whole * members


RESULTS: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages(Peers):
    """Averages vectors of its own, in groups of its own, then trains alone."""

    name: ClassVar[str] = "averages"

    async def worker(self, node: Any) -> None:
        me = node.members.index(node.name)
        mine = torch.arange(11.0) * (me + 1) + me
        RESULTS[node.name] = await average(node, node.members, mine, number=7, weight=me + 1.0)
        while await step(node, await node.compute()):
            pass


@given(case=cases())
def test_average_is_the_weighted_mean_bit_for_bit_the_same_on_all(case: Case) -> None:
    RESULTS.clear()
    log = spied(case.job("test_peers:Averages", epochs=1))
    n = len(log.story.plan.workers)
    assert len(RESULTS) == n
    vectors = [torch.arange(11.0) * (i + 1) + i for i in range(n)]
    expected = sum(v * (i + 1) for i, v in enumerate(vectors)) / sum(range(1, n + 1))
    first = next(iter(RESULTS.values()))
    assert all(torch.equal(first, other) for other in RESULTS.values())
    torch.testing.assert_close(first, expected)
