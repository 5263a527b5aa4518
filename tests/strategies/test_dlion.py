"""DLion: the invariants of its parts, what it degenerates to, links that change, and members that come and go."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, SpiedNode, cases, spied

from littoral.continuum.signal import Constant, Steps
from littoral.errors import InputError
from littoral.learning.replica import Replica
from littoral.learning.task import load_task
from littoral.strategies.allreduce import AllReduce
from littoral.strategies.dlion import DLion, DLionGradient, DLionLoss, DLionWeights
from littoral.strategies.links import Links
from littoral.strategies.rates import LinkReport
from littoral.testing import check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

EXACT = {"sync": "bsp", "floor": 100, "dkt_pull": 0, "growth": False, "balance": False}

# -- whole runs, whatever happens -------------------------------------------------------------------------------

settings = st.fixed_dictionaries(
    {
        "sync": st.sampled_from(["bsp", "ssp", "asp"]), "bound": st.integers(0, 3), "period": st.integers(4, 6),
        "warmup_step": st.integers(1, 8), "dkt_period": st.integers(1, 6), "floor": st.sampled_from([1.0, 30, 100]),
        "weighting": st.sampled_from(["published", "unbiased"]), "balance": st.booleans(), "growth": st.booleans(),
    }
)  # fmt: skip


@given(case=cases(most=4, crashes=True), chosen=settings)
def test_invariants_of_whole_runs(case: Case, chosen: dict[str, Any]) -> None:
    """Every sample once; nobody beyond the bound; 1, 3 and 9: batches sum to one global batch that all agree on."""
    strategy = DLion(**chosen)
    log = spied(case.job("dlion", **chosen), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    assert_bounded(log, strategy.limit)
    if math.isfinite(strategy.limit):
        assert_global_batches(log, strategy)


def assert_bounded(log: Log, limit: float) -> None:
    """When someone sends round r, all others who work have at least sent round r - limit - 1."""
    sent: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: -1))
    for act in log.of("send", DLionGradient):
        mine = sent[act.generation]
        others = {node: last for node, last in mine.items() if node != act.node}
        assert all(last >= act.what.round - limit - 1 for last in others.values())
        mine[act.node] = math.inf if act.what.idle else act.what.round


def assert_global_batches(log: Log, strategy: DLion) -> None:
    members = {worker.name for worker in log.story.plan.workers}
    shards = {worker.name: worker.shard for worker in log.story.plan.workers}
    start: Any = SimpleNamespace(plan=log.story.plan, members=tuple(sorted(members)))
    growth = strategy.division(start).growth
    totals: dict[int, set[int]] = defaultdict(set)
    taken: dict[int, dict[str, int]] = defaultdict(dict)
    short: set[int] = set()  # rounds in which someone came to the end of an epoch, or of its work
    leases: dict[str, Any] = {}
    for act in log.acts:
        if act.generation != 1:
            continue
        if act.kind == "computed":
            leases[act.node] = act.what.lease
        elif act.kind == "send" and isinstance(act.what, DLionGradient):
            number, lease = act.what.round, leases[act.node]
            totals[number].add(act.what.total)
            taken[number][act.node] = act.what.samples
            if lease is None or lease.spans[-1].stop == shards[act.node]:
                short.add(number)
    for number in sorted(totals):
        if any(other <= number for other in short):
            continue  # who has no work left is not waited for, so its last word may be late
        assert len(totals[number]) == 1
        (total,) = totals[number]
        assert total == min(growth.at(number), sum(shards.values()))
        if taken[number].keys() == members:
            assert sum(taken[number].values()) == total


@pytest.mark.parametrize("seed", range(5))
def test_batches_sum_up_even_when_some_are_ahead(seed: int) -> None:
    """Invariants 1 and 9 with a bound: what decides a division is everywhere before anyone needs it."""
    case = Case(
        speeds=(50.0, 80.0, 60.0), far=(False, True, False), wan=2e4, wan_latency_s=0.05, jitter=1.0, planner="fair",
        seed=seed, faults=(),
    )  # fmt: skip
    chosen: dict[str, Any] = {"bound": 3, "period": 4, "growth": False}
    log = spied(case.job("dlion", samples=600, epochs=1, **chosen), timing_only=True, seed=seed)
    assert_global_batches(log, DLion(**chosen))
    assert len({act.what.samples for act in log.of("send", DLionGradient)}) > 5


# -- what it degenerates to -------------------------------------------------------------------------------------

STEPS: dict[str, list[Any]] = defaultdict(list)  # the model after every update
ROUNDS: dict[str, list[Any]] = defaultdict(list)  # the model at the beginning of every round


class Diary(SpiedNode):
    """Keeps what the model was."""

    async def compute(self) -> Any:
        ROUNDS[self._node.name].append(self._node.model.vector.clone())
        return await self._node.compute()

    async def update(self, gradient: Any, samples: float, factor: float = 1.0) -> None:
        await self._node.update(gradient, samples, factor)
        STEPS[self._node.name].append(self._node.model.vector.clone())


class _Kept:
    __slots__ = ()

    async def worker(self, node: Any) -> None:
        await super().worker(Diary(node, lambda act: None))  # type: ignore[misc]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDLion(_Kept, DLion):
    """DLion whose models are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAllReduce(_Kept, AllReduce):
    """All-reduce whose models are kept."""

    name: ClassVar[str] = "allreduce"


def kept(case: Case, strategy: str, **chosen: Any) -> tuple[dict[str, list[Any]], dict[str, list[Any]], Log]:
    """Models at the beginning of rounds and after updates."""
    ROUNDS.clear()
    STEPS.clear()
    job = replace(case.job(f"test_dlion:{strategy}", epochs=1, samples=48, **chosen), recipe={"warmup": 0})
    log = spied(job)
    return dict(ROUNDS), dict(STEPS), log


@given(case=cases(most=3))
def test_whole_gradients_in_lock_step_are_large_batch_sgd(case: Case) -> None:
    """Invariant 6: replicas stay identical bit for bit, and are where all-reduce's model is."""
    mine, _, log = kept(case, "KeptDLion", **EXACT)
    reference, _, _ = kept(case, "KeptAllReduce")
    first, *rest = mine.values()
    assert len(mine) == len(log.story.plan.workers) and len(first) > 2
    for other in rest:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=False))
    for a, b in zip(first, next(iter(reference.values())), strict=False):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert not torch.equal(first[0], first[-1])


@given(case=cases(most=3), pull=st.sampled_from([0.0, 0.4, 1.0]))
def test_knowledge_comes_from_the_best(case: Case, pull: float) -> None:
    """Invariant 8: w - pull (w - best) for everyone but the best, which stays; nothing at all with pull 0."""
    rounds, steps, log = kept(
        case, "KeptDLion", sync="bsp", floor=5, weighting="published", dkt_period=3, dkt_pull=pull
    )
    given_away = {id(act.what.vector): act for act in log.of("send", DLionWeights)}.values()
    if not pull:
        assert not log.of("send", DLionLoss) and not given_away
        assert all(torch.equal(a, b) for n in rounds for a, b in zip(rounds[n][1:], steps[n], strict=False))
    if pull and all(len(models) > 3 for models in rounds.values()):
        losses = {act.node: act.what.loss for act in log.of("send", DLionLoss) if act.what.number == 1}
        best = min((loss, list(rounds).index(name), name) for name, loss in losses.items())[2]
        assert next(iter(given_away)).node == best
        for name in rounds:
            expected = steps[name][2] + pull * (steps[best][2] - steps[name][2])
            torch.testing.assert_close(rounds[name][3], expected)
        assert torch.equal(rounds[best][3], steps[best][2])
        if pull == 1.0:
            assert all(torch.equal(models[3], rounds[best][3]) for models in rounds.values())


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_weighted_mean_is_the_gradient_of_all_samples(sizes: list[int]) -> None:
    """Invariant 7."""
    job = small_job()
    task = load_task(job.task, job.task_options, job.recipe)
    replica, data = Replica(task, 0), task.data()
    assert replica.segments[0][0] == 0 and replica.segments[-1][1] == replica.trained
    x, y = data.train_x[: sum(sizes)], data.train_y[: sum(sizes)]
    parts = [replica.gradient(*each)[0] for each in zip(torch.split(x, sizes), torch.split(y, sizes), strict=True)]
    member = SimpleNamespace(strategy=DLion(), node=SimpleNamespace(members=sizes))
    from littoral.strategies.dlion import _Member

    weights = [_Member._weight(member, size, sum(sizes)) for size in sizes]  # type: ignore[arg-type]
    mean = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    torch.testing.assert_close(mean, replica.gradient(x, y)[0], rtol=1e-4, atol=1e-6)


def test_published_weights_point_the_same_way_but_not_as_far() -> None:
    """The direction is the mean gradient's on every worker, the length GBS / (n LBS)."""
    from littoral.strategies.dlion import _Member

    batches = {"a": 30, "b": 10}
    for name, length in (("a", 40 / 60), ("b", 40 / 20)):
        node = SimpleNamespace(members=("a", "b"), name=name)
        member: Any = SimpleNamespace(
            strategy=DLion(weighting="published"), node=node, division=SimpleNamespace(batches=batches)
        )
        weights = [_Member._weight(member, batch, 40) for batch in batches.values()]
        assert weights[0] == pytest.approx(3 * weights[1])
        assert sum(weights) == pytest.approx(length)


# -- links ------------------------------------------------------------------------------------------------------

SEGMENTS = ((0, 40), (40, 45), (45, 90))


def links(floor: float = 1.0, residual: bool = False, wire: str = "float32") -> Links:
    def spawn(program: Any) -> None:
        program.close()

    plan = SimpleNamespace(rates={}, wire=wire)
    model = SimpleNamespace(vector=torch.zeros(96), segments=SEGMENTS)
    node: Any = SimpleNamespace(plan=plan, model=model, spawn=spawn, name="w-1", members=("w-1", "w-2"))
    return Links(node, floor, residual)


vectors = st.builds(lambda seed, power: _drawn(seed) ** power, st.integers(0, 10**6), st.sampled_from([1, 3]))


def _drawn(seed: int) -> Any:
    """None so small that it is nothing in float16."""
    vector = torch.randn(96, generator=torch.Generator().manual_seed(seed))
    return vector + 0.1 * vector.sign()


@given(vector=vectors, budgets=st.tuples(st.integers(0, 500), st.integers(0, 500)), wire=st.sampled_from([16, 32]))
def test_a_link_gets_the_largest_elements_that_fit(vector: Any, budgets: tuple[int, int], wire: int) -> None:
    """Invariants 4 and 5."""
    some = links(wire=f"float{wire}")
    got = {}
    for budget in sorted(budgets):
        percent, payload = some.cut("w-2", vector, 8, budget)
        assert payload.nbytes <= budget or percent == 1.0
        decoded = some.decode(payload)
        got[budget] = decoded != 0
        torch.testing.assert_close(decoded[got[budget]], vector[got[budget]], rtol=1e-3, atol=1e-4)
        for start, stop in SEGMENTS:
            sizes, held = vector[start:stop].abs(), got[budget][start:stop]
            assert held[sizes.argmax()]
            assert not (~held).any() or sizes[held].min() >= sizes[~held].max()
        assert got[budget][90:].all()  # statistics
    low, high = (got[budget] for budget in sorted(budgets)) if budgets[0] != budgets[1] else (got[budgets[0]],) * 2
    assert not (low & ~high).any()
    if wire == 32:
        assert torch.equal(some.decode(some.cut("w-2", vector, 8, 10**6)[1]), vector)


@given(parts=st.lists(st.tuples(vectors, st.integers(1, 50), st.integers(0, 400)), min_size=1, max_size=4))
def test_with_residuals_nothing_is_lost(parts: list[tuple[Any, int, int]]) -> None:
    """What was sent, weighted by samples, and what is owed are all there was; without, what did not fit is gone."""
    careful, published = links(residual=True), links()
    total, crossed = torch.zeros(96), torch.zeros(96)
    for vector, samples, budget in parts:
        total += samples * vector
        crossed += samples * careful.decode(careful.cut("w-2", vector, samples, budget)[1])
        published.cut("w-2", vector, samples, budget)
    owed = careful._streams["w-2"].residual
    torch.testing.assert_close(crossed + parts[-1][1] * owed, total, rtol=1e-3, atol=1e-3)
    assert published._streams["w-2"].residual is None


def pair(rate: Any, samples: int = 1600, **chosen: Any) -> Any:
    """Two workers at two sites, 0.1 s a batch, and a link between them."""
    case = Case(
        speeds=(80.0, 80.0), far=(False, True), wan=1e5, wan_latency_s=0.02, jitter=0.0, planner="fair", seed=0,
        faults=(),
    )  # fmt: skip
    job = case.job("dlion", epochs=1, growth=False, balance=False, dkt_pull=0, **chosen)
    task = {"samples": samples, "test_samples": 30, "batch": 8, "features": 200, "width": 1.0}
    lan, far, wide = job.continuum.links
    continuum = replace(job.continuum, links=(lan, far, replace(wide, forward=rate, backward=rate)))
    return replace(job, continuum=continuum, task_options=job.task_options | task)


def test_a_link_is_measured_as_it_is() -> None:
    log = spied(pair(Constant(1e5)), timing_only=True)
    reports = [act.what for act in log.of("received", LinkReport)]
    assert len(reports) > 150
    assert all(report.carried / report.seconds == pytest.approx(1e5, rel=1e-6) for report in reports)


def test_messages_follow_a_link_that_changes() -> None:
    """A tenth of the rate from 5 s to 20 s: what is sent is what the link now carries in a step, and back again."""
    rates = (1e5, 1e4, 1e5)
    log = spied(pair(Steps((0.0, 5.0, 20.0), rates), samples=5600), timing_only=True)
    for (begin, end), rate in zip([(2.0, 5.0), (12.0, 20.0), (23.0, 30.0)], rates, strict=True):
        sent = [act.what for act in log.of("send", DLionGradient) if begin < act.t < end]
        sizes = sorted(each.size + 256 for each in sent)
        assert sizes[len(sizes) // 2] == pytest.approx(0.1 * rate, rel=0.2)
        assert 0.7 * rate < sum(sizes) / (end - begin) / 2 < 1.15 * rate


def test_n_follows_a_link_that_changes() -> None:
    log = spied(pair(Steps((0.0, 3.0), (1e5, 1e4)), samples=2000))

    def mean(begin: float, end: float) -> float:
        found = [act.what.percent for act in log.of("send", DLionGradient) if begin < act.t < end]
        return sum(found) / len(found)

    assert 100 > mean(1.0, 3.0) > 1.5 * mean(9.0, 12.0) > 1.5


def test_a_link_too_poor_for_the_floor_is_spared() -> None:
    """Nobody waits for anybody here, and a third of the gradient takes seconds: still little is under way."""
    log = spied(pair(Constant(1e4), sync="asp", floor=30), timing_only=True)
    under_way = most = empty = 0
    for act in log.acts:
        if act.node == "w-1" and act.kind == "send" and isinstance(act.what, DLionGradient):
            under_way += act.what.vector is not None
            empty += act.what.vector is None
        elif act.node == "w-2" and act.kind == "received" and isinstance(act.what, DLionGradient):
            under_way -= act.what.vector is not None
        most = max(most, under_way)
    assert empty > 20 and most < 12
    carried = sum(act.what.size for act in log.of("received", DLionGradient)) / log.story.time_s / 2
    assert carried > 0.5e4  # and yet it is not idle


# -- members ----------------------------------------------------------------------------------------------------


def test_who_has_no_work_left_follows_quietly() -> None:
    """It says so once, and applies what the others find out until the end."""
    job = small_job(continuum=small_continuum((200.0, 20.0, 20.0)), strategy="dlion", planner="fair", sync="asp")
    log = spied(job)
    end = max(act.t for act in log.of("commit") if act.node == "w-1")
    told = [act for act in log.of("send", DLionGradient) if act.node == "w-1" and act.t > end]
    assert len(told) == 2 and all(act.what.idle and act.what.vector is None for act in told)
    updates = [act for act in log.of("update") if act.t > end and act.node == "w-1"]
    others = [act for act in log.of("commit") if act.t > end]
    assert len(updates) > 0.8 * len(others) > 20
    assert log.story.time_s > 3 * end


def test_restarted_members_begin_with_the_mean_of_their_models() -> None:
    ROUNDS.clear()
    job = small_job(strategy="test_dlion:KeptDLion", faults=[fail_at("w-3", 1.0)], floor=5, weighting="published")
    log = spied(replace(job, continuum=small_continuum((100.0, 50.0, 33.0), bandwidth=5e3)))
    starts = [act for act in log.of("start") if act.generation == 2]
    assert {act.node for act in starts} == {"w-1", "w-2"}
    assert any(torch.equal(a, b) for a in ROUNDS["w-1"][1:] for b in ROUNDS["w-2"][1:])


@pytest.mark.parametrize(
    "chosen",
    [{}, {"sync": "bsp", "dkt_period": 3}, {"sync": "asp", "residual": True}, {"weighting": "published", "floor": 100}],
)
def test_contract(chosen: dict[str, Any]) -> None:
    check_strategy("dlion", **chosen)
    check_strategy("dlion", [fail_at("w-2", 0.6, back_after_s=1.5)], **chosen)


def test_contract_with_real_processes(forge: Forge) -> None:
    check_strategy("dlion", run=lambda job: live(job, launcher=forge), dkt_period=5, period=6)


def test_one_worker_alone_is_sgd() -> None:
    story = simulate(small_job(workers=1, strategy="dlion", epochs=1))
    assert story.reason == "epochs" and story.contradictions() == []


@pytest.mark.parametrize(
    ("chosen", "remedy"),
    [
        ({"sync": "bps"}, "bsp"),
        ({"bound": -1}, "at least 0"),
        ({"weighting": "fair"}, "unbiased"),
        ({"floor": 0}, "at least"),
        ({"floor": 101}, "at most 100"),
        ({"growth": "maybe"}, "on or off"),
        ({"speedup": 0.5}, "at least 1"),
        ({"slow_until": 0.5}, "at most 0.1"),
        ({"dkt_pull": 2}, "at most 1"),
        ({"period": 4}, "a longer period"),
        ({"dkt_period": 0}, "at least 1"),
    ],
)
def test_bad_parameters_are_answered_with_a_remedy(chosen: dict[str, Any], remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        DLion(**chosen)
    assert remedy in str(caught.value)


def test_switches_are_words_or_truth_values() -> None:
    assert DLion(growth="off").growth is False and DLion(residual="on").residual is True  # type: ignore[arg-type]
