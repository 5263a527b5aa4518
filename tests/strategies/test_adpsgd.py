"""AD-PSGD: averages of two, atomic and without deadlock, while everyone steps at its own pace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Act, Case, Log, cases, spied

from littoral.errors import InputError
from littoral.planning.topology import make_topology
from littoral.strategies.adpsgd import AdPsgd, AveragingReply, AveragingRequest, by_speed, colours
from littoral.strategies.peers import Peers, step
from littoral.strategies.strategy import make_strategy
from littoral.testing import check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

SETTINGS = st.fixed_dictionaries(
    {
        "sides": st.sampled_from(["even-odd", "halves"]),
        "partner": st.sampled_from(["random", "round-robin", "fast"]),
        "lead": st.sampled_from([0, 1, 3]),
    }
)


def computing(log: Log) -> Any:
    """Every act, with the nodes that are in the middle of a step."""
    busy: set[str] = set()
    for act in log.acts:
        if act.kind == "compute":
            busy.add(act.node)
        elif act.kind in ("computed", "start"):
            busy.discard(act.node)
        yield act, busy


@given(case=cases(crashes=True), settings=SETTINGS)
def test_nobody_waits_for_ever_nor_answers_late_whoever_dies(case: Case, settings: dict) -> None:
    """Invariant 6, and of 5 that no two averages overlap on a node: an active worker has one request under way, a
    passive one asks nobody and answers in the instant in which it is asked, also in the middle of a step."""
    log = spied(case.job("adpsgd", **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    waiting: dict[tuple[str, int], str] = {}
    asked: dict[str, Act] = {}
    for act, _ in computing(log):
        mine = (act.node, act.generation)
        if act.kind == "send" and isinstance(act.what, AveragingRequest):
            assert mine not in waiting
            waiting[mine] = act.peer
        elif act.kind == "received" and isinstance(act.what, AveragingReply):
            assert waiting.pop(mine) == act.peer
        elif act.kind == "received" and isinstance(act.what, AveragingRequest):
            assert mine not in waiting
            asked[act.node] = act
        elif act.kind == "send":
            request = asked.pop(act.node)
            assert (request.peer, request.t) == (act.peer, act.t)


def test_passive_workers_answer_while_they_compute() -> None:
    continuum = small_continuum([2.0, 200.0])
    log = spied(small_job(strategy="adpsgd", continuum=continuum, planner="fair"), timing_only=True)
    answers = [act.node in busy for act, busy in computing(log) if isinstance(act.what, AveragingReply)]
    assert sum(answers) > 5


NUDGE = 1.0
START: dict[str, torch.Tensor] = {}


class Nudged:
    """A node that begins at a place of its own and whose every step moves its model by ``NUDGE`` and takes a while."""

    def __init__(self, node: Any) -> None:
        self._node = node
        dice = torch.Generator().manual_seed(sum(map(ord, node.name)))
        START[node.name] = 100 * torch.randn(len(node.model.vector), generator=dice)
        node.model.load(START[node.name])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def compute(self) -> Any:
        self._node._write("reads", what=self._node.model.snapshot())
        return await self._node.compute()

    async def update(self, gradient: Any, samples: float, factor: float = 1.0) -> None:
        self._node._write("update")
        self._node.model.load(self._node.model.vector + NUDGE)
        await self._node.sleep(0.05)  # long enough for others to ask meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class NudgedAdPsgd(AdPsgd):
    """AD-PSGD whose steps are known beforehand."""

    name: ClassVar[str] = "nudged_adpsgd"

    async def worker(self, node: Any) -> None:
        await AdPsgd.worker(self, Nudged(node))


class Book:
    """What every model must be after each act, by the algorithm's own words."""

    def __init__(self, lead: int) -> None:
        self.models = {name: vector.double() for name, vector in START.items()}
        self.lead, self.nudges = lead, Counter[str]()
        self.sent: dict[str, torch.Tensor] = {}
        self.partner: dict[str, tuple[str, torch.Tensor]] = {}
        self.total = sum(self.models.values())
        self.events = 0

    def enter(self, act: Act) -> None:
        if act.kind == "update":
            self.nudges[act.node] += 1
            self.total = self.total + NUDGE
        elif act.kind == "reads" or (act.kind == "send" and isinstance(act.what, AveragingRequest)):
            self._finish_step(act.node)
        if act.kind == "reads":
            torch.testing.assert_close(act.what.double(), self.models[act.node], atol=1e-3, rtol=0)
        elif act.kind == "send":
            torch.testing.assert_close(act.what.vector.double(), self.models[act.node], atol=1e-3, rtol=0)
            self._note(act)
        elif act.kind == "received" and isinstance(act.what, AveragingReply):
            self._close(act)
            self._check_sum()

    def _finish_step(self, node: str) -> None:
        self.models[node] = self.models[node] + NUDGE * self.nudges.pop(node, 0)

    def _note(self, act: Act) -> None:
        if isinstance(act.what, AveragingRequest):
            self.sent[act.node] = self.models[act.node]
        else:  # the passive end averages in the instant of its reply
            before = self.models[act.node]
            self.models[act.node] = (before + self.sent[act.peer]) / 2
            self.partner[act.peer] = act.node, before

    def _close(self, act: Act) -> None:
        """The active end comes half way too; if it did not step meanwhile, to where the passive one went."""
        _, theirs = self.partner.pop(act.node)
        sent = self.sent.pop(act.node)
        if self.lead == 0:
            torch.testing.assert_close(self.models[act.node], sent)
        self.models[act.node] = self.models[act.node] + (theirs - sent) / 2
        self.events += 1

    def _check_sum(self) -> None:
        """Of all models, with the steps and the halves of averages that are under way."""
        steps = sum(self.nudges.values()) * NUDGE
        halves = sum((theirs - self.sent[active]) / 2 for active, (_, theirs) in self.partner.items())
        torch.testing.assert_close(sum(self.models.values()) + steps + halves, self.total, atol=1e-6, rtol=1e-6)


@given(case=cases(), settings=SETTINGS)
def test_averages_change_two_models_and_keep_their_sum(case: Case, settings: dict) -> None:
    """Invariants 2 and 5, with steps between request and reply, and with requests in the middle of steps."""
    START.clear()
    log = spied(case.job("test_adpsgd:NudgedAdPsgd", epochs=1, samples=48, **settings))
    assert log.story.reason == "epochs"
    book = Book(settings["lead"])
    for act in log.acts:
        book.enter(act)
    assert book.events or settings["lead"]  # who need not wait may be done before the first answer


class BlockingRequest(AveragingRequest, frozen=True):
    """Of ``Blocking``."""


class BlockingReply(AveragingReply, frozen=True):
    """Of ``Blocking``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking(Peers):
    """Averaging without sides: everybody asks the next, waits for the answer, and only then answers others."""

    name: ClassVar[str] = "blocking"

    async def worker(self, node: Any) -> None:
        following = node.members[(node.members.index(node.name) + 1) % len(node.members)]
        while True:
            await step(node, await node.compute())
            await node.send(following, BlockingRequest(node.model.snapshot()))
            await node.receive(BlockingReply, sender=following)
            for asked in await node.arrived(BlockingRequest):
                await node.send(asked.sender, BlockingReply(node.model.snapshot()))


@given(case=cases(least=3, most=3))
def test_without_sides_blocking_averages_deadlock(case: Case) -> None:
    """Invariant 6, the negative half."""
    log = spied(case.job("test_adpsgd:Blocking"), timing_only=True)
    assert log.story.reason == "stuck: every node waits for another"


@given(st.sampled_from(["ring", "torus", "star", "hypercube", "complete", "exponential"]), st.integers(2, 12))
def test_sides_are_found_where_there_are_any(name: str, count: int) -> None:
    nodes = [f"n{i}" for i in range(count)]
    try:
        topology = make_topology(name, nodes)
    except InputError:  # not with so many
        return
    try:
        found = colours(topology)
    except InputError as refused:
        assert "not bipartite" in str(refused) and refused.remedy
        assert any(odd_walk(topology, node) for node in nodes)
    else:
        assert not found["n0"]
        assert all(found[a] != found[b] for a, b in topology.arcs())


def odd_walk(topology: Any, node: str) -> bool:
    """Whether a walk of an odd number of links returns: only then there are no two sides."""
    reach, arcs = {(node, 0)}, topology.arcs()
    for _ in range(2 * len(topology.nodes)):
        reach |= {(b, 1 - odd) for a, odd in reach for x, y in arcs for p, b in ((x, y), (y, x)) if p == a}
    return (node, 1) in reach


@pytest.mark.parametrize("workers", [3, 4])
def test_a_ring_is_refused_when_planning_if_it_is_odd(workers: int) -> None:
    job = small_job(strategy="adpsgd", workers=workers, topology="ring")
    if workers == 4:
        assert simulate(job, timing_only=True).reason == "epochs"
    else:
        with pytest.raises(InputError, match="not bipartite"):
            simulate(job)


def test_a_topology_that_a_loss_leaves_without_sides_gives_way_to_all_with_all() -> None:
    """A hypercube without a corner that the others need; the repair joins them by a ring, which may be odd."""
    faults = [fail_at("w-2", 0.3), fail_at("w-3", 0.5), fail_at("w-5", 0.7)]
    log = spied(small_job(strategy="adpsgd", workers=8, topology="hypercube", faults=faults), timing_only=True)
    assert log.story.reason == "epochs" and log.story.contradictions() == []
    late = [act for act in log.of("send", AveragingRequest) if act.generation == 4]
    assert late and not {act.node for act in late} & {act.peer for act in late}


def test_links_only_run_along_the_topology() -> None:
    log = spied(small_job(strategy="adpsgd", workers=4, topology="star"), timing_only=True)
    assert {(act.node, act.peer) for act in log.of("send", AveragingRequest)} == {(f"w-{i}", "w-1") for i in (2, 3, 4)}


@given(rates=st.lists(st.floats(1e3, 1e9), min_size=1, max_size=8))
def test_fast_links_are_used_more_and_no_link_never(rates: list[float]) -> None:
    names = [f"p{i}" for i in range(len(rates))]
    chances = by_speed(dict(zip(names, rates, strict=True)), names)
    assert sum(chances) == pytest.approx(1.0)
    assert min(chances) >= 0.1 / len(rates)
    assert sorted(range(len(rates)), key=rates.__getitem__) == sorted(
        range(len(rates)), key=lambda i: (chances[i], rates[i])
    )


def test_fast_partners_are_near_and_slow_links_are_still_used() -> None:
    case = Case(
        speeds=(50.0,) * 4, far=(False, False, True, True), wan=1e5, wan_latency_s=0.01, jitter=0.0, planner="fair",
        seed=0, faults=(),
    )  # fmt: skip
    log = spied(case.job("adpsgd", partner="fast", epochs=8, samples=400), timing_only=True)
    used = Counter((act.node, act.peer) for act in log.of("send", AveragingRequest))
    assert used["w-2", "w-1"] > 4 * used["w-2", "w-3"] > 0
    assert used["w-4", "w-3"] > 4 * used["w-4", "w-1"] > 0


def test_a_slow_link_holds_nobody_up_who_has_a_lead() -> None:
    case = Case(
        speeds=(50.0, 50.0), far=(False, True), wan=4e3, wan_latency_s=0.3, jitter=0.0, planner="fair",
        seed=0, faults=(),
    )  # fmt: skip
    times = [simulate(case.job("adpsgd", lead=lead), timing_only=True).time_s for lead in (0, 64)]
    assert times[1] < 0.6 * times[0]


def test_batches_are_planned_even_and_the_fast_take_more_of_them() -> None:
    story = simulate(small_job(strategy="adpsgd", continuum=small_continuum([100.0, 10.0, 10.0])), timing_only=True)
    assert [worker.batch for worker in story.plan.workers] == [8, 8, 8]
    assert [worker.shard for worker in story.plan.workers] == [200, 20, 20]


@pytest.mark.parametrize("settings", [{"sides": "left"}, {"partner": "nearest"}, {"lead": -1}, {"lead": 0.5}])
def test_bad_settings_are_refused_with_a_remedy(settings: dict) -> None:
    with pytest.raises(InputError, match=next(iter(settings))) as refused:
        make_strategy("adpsgd", settings)
    assert refused.value.remedy


@pytest.mark.parametrize(
    "settings", [{}, {"sides": "halves", "partner": "fast"}, {"partner": "round-robin", "lead": 2}]
)
def test_it_keeps_the_contract(settings: dict[str, Any]) -> None:
    check_strategy("adpsgd", **settings)
    check_strategy("adpsgd", [fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


def test_it_keeps_the_contract_with_real_processes(forge: Forge) -> None:
    check_strategy("adpsgd", run=lambda job: live(job, launcher=forge))
