"""Local SGD: flat, post-local, hierarchical and with slow momentum. Numbers are those of the family's invariants:
degenerate settings (1, 2), equal models after a meeting (3), bytes (4), nothing half applied (9)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, cases, spied

from littoral.errors import InputError
from littoral.job import Job
from littoral.strategies import local_sgd
from littoral.strategies.groups import GroupMean, GroupShare
from littoral.strategies.local_sgd import LocalSgdMean
from littoral.strategies.strategy import make_strategy
from littoral.testing import Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

SETTINGS = st.fixed_dictionaries(
    {
        "period": st.sampled_from([1, 2, 4]),
        "site_period": st.sampled_from([0, 1]),
        "post": st.sampled_from([0.0, 0.4]),
        "slow_momentum": st.sampled_from([0.0, 0.5]),
    }
)


class Meetings:
    """What every average gave to whom: by generation, number and group."""

    def __init__(self) -> None:
        self.results: dict[Any, dict[str, Any]] = defaultdict(dict)
        self._average = local_sgd.average

    def __enter__(self) -> Meetings:
        async def noted(node: Any, group: Any, vector: Any, **more: Any) -> Any:
            result = await self._average(node, group, vector, **more)
            self.results[node.generation, more["number"], tuple(group)][node.name] = result
            return result

        local_sgd.average = noted
        return self

    def __exit__(self, *_: object) -> None:
        local_sgd.average = self._average


@given(case=cases(crashes=True), settings=SETTINGS)
def test_runs_end_whoever_dies_and_meetings_agree(case: Case, settings: dict[str, Any]) -> None:
    """Invariants 3 and 9: who meets has the same afterwards, bit for bit, and every sample counts once."""
    with Meetings() as meetings:
        log = spied(case.job("local_sgd", samples=64, **settings))
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    for results in meetings.results.values():
        first = next(iter(results.values()))
        assert all(torch.equal(first, other) for other in results.values())


def plain(strategy: str, speeds: tuple[float, ...] = (100.0, 50.0, 25.0), **settings: Any) -> Job:
    job = small_job(strategy=strategy, continuum=small_continuum(speeds), **settings)
    return replace(job, recipe={"warmup": 0, "momentum": 0.0})


def mean_model(story: Story, power: float = 0.5) -> torch.Tensor:
    """Weighted as in a meeting: the last steps have not been averaged yet."""
    assert story.session is not None
    weights = {w.name: w.batch**power for w in story.plan.workers}
    models = [story.session.nodes[name].model.vector * weight for name, weight in weights.items()]
    total: torch.Tensor = sum(models)  # type: ignore[assignment]
    return total / sum(weights.values())


@pytest.mark.parametrize("speeds", [(100.0, 100.0), (100.0, 50.0, 10.0)])
@pytest.mark.parametrize("settings", [{"period": 1}, {"period": 16, "post": 1.0}, {"period": 1, "site_period": 1}])
def test_a_period_of_one_is_synchronous_sgd(speeds: tuple[float, ...], settings: dict[str, Any]) -> None:
    """Invariant 1, with batches as unequal as the speeds, and different numbers of steps."""
    for planner in ("proportional", "fair"):
        ours = simulate(plain("local_sgd", speeds, planner=planner, **settings))
        theirs = simulate(plain("allreduce", speeds, planner=planner))
        torch.testing.assert_close(mean_model(ours), mean_model(theirs), atol=1e-5, rtol=0)


def test_unequal_sites_count_for_what_they_are() -> None:
    """Hierarchical with a period of one is synchronous SGD too: a site weighs as much as its workers."""
    case = Case((100.0, 40.0, 10.0), (False, False, True), 1e6, 0.01, 0.0, "proportional", 0, ())
    ours, theirs = (
        simulate(replace(case.job(*job[:1], **job[1]), recipe={"warmup": 0}))  # type: ignore[arg-type]
        for job in (("local_sgd", {"period": 1, "site_period": 1}), ("allreduce", {}))
    )
    torch.testing.assert_close(mean_model(ours), mean_model(theirs), atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"period": 4, "site_period": 2}, {"post": 0.5}])
def test_one_worker_is_the_inner_optimiser_alone(settings: dict[str, Any]) -> None:
    """Invariant 2, bit for bit."""
    alone = simulate(small_job(workers=1, strategy="allreduce"))
    assert torch.equal(mean_model(simulate(small_job(workers=1, strategy="local_sgd", **settings))), mean_model(alone))


def test_slow_momentum_follows_its_formula() -> None:
    """Momentum 0 and rate 1 are plain local SGD; else u <- m u + (last - mean), last <- last - rate u."""
    with Meetings() as meetings:
        simulate(plain("local_sgd", period=3, slow_momentum=0.5, slow_rate=0.8))
    means = [next(iter(results.values())) for results in meetings.results.values()]
    with Meetings() as plainly:
        simulate(plain("local_sgd", period=3))
    first = next(iter(next(iter(plainly.results.values())).values()))
    assert torch.equal(means[0], first)
    assert not torch.equal(means[1], list(plainly.results.values())[1]["w-1"])
    start, way, slow = torch.zeros(3), torch.zeros(3), local_sgd._SlowMotion(0.5, 0.8, torch.zeros(3))
    for mean in torch.rand(5, 3, generator=torch.Generator().manual_seed(0)):
        way = 0.5 * way + (start - mean)
        start = start - 0.8 * way
        torch.testing.assert_close(slow.follow(mean), start)


def test_optimisers_keep_their_own_memory() -> None:
    """Invariant 3: models are averaged, momentum is not."""
    job = replace(small_job(strategy="local_sgd", period=1), recipe={"momentum": 0.9})
    story = simulate(job)
    assert story.session is not None
    states = [story.session.nodes[w.name].model.state() for w in story.plan.workers]  # type: ignore[attr-defined]
    assert not torch.equal(states[0]["optimizer.velocity"], states[1]["optimizer.velocity"])


def sent(log: Log, *kinds: type[Any], wide: bool = False) -> dict[str, int]:
    """Elements of vectors that each node sent, perhaps only those that leave its site."""
    site = {worker.name: worker.site for worker in log.story.plan.workers}
    elements: dict[str, int] = defaultdict(int)
    for kind in kinds:
        for act in log.of("send", kind):
            if not wide or site[act.node] != site[act.peer]:
                elements[act.node] += len(act.what.vector)
    return elements


@pytest.mark.parametrize("period", [1, 2, 4])
@pytest.mark.parametrize("workers", [2, 4])
def test_bytes_per_step_fall_with_the_period(period: int, workers: int) -> None:
    """Invariant 4: 2(k-1)/k of the model per worker and meeting, and a meeting every period steps."""
    continuum = small_continuum((50.0,) * workers)
    job = small_job(strategy="local_sgd", continuum=continuum, period=period, planner="fair", epochs=4)
    log = spied(job, timing_only=True)
    length = len(log.story.session.nodes["w-1"].model.vector)
    steps = len([act for act in log.of("computed") if act.node == "w-1" and act.what.lease is not None])
    for worker in log.story.plan.workers:
        elements = sent(log, GroupShare, GroupMean)[worker.name]
        per_meeting = 2 * (workers - 1) / workers * length
        rounding = 2 * steps / period  # parts are whole elements; the last meeting may not come about
        assert elements == pytest.approx(steps / period * per_meeting, abs=per_meeting + rounding)


def two_sites() -> Case:
    return Case((50.0,) * 6, (False, True) * 3, 1e6, 0.01, 0.0, "fair", 0, ())


def test_sites_agree_inside_and_meet_rarely() -> None:
    """Hierarchical: equal inside a site after its meetings, while sites differ; then all are equal."""
    with Meetings() as meetings:
        spied(two_sites().job("local_sgd", period=4, site_period=2, epochs=4))
    inside = {(number, group): r for (_, number, group), r in meetings.results.items() if len(group) == 3}
    heads = {number: r for (_, number, group), r in meetings.results.items() if len(group) == 2}
    near, far = ("w-1", "w-3", "w-5"), ("w-2", "w-4", "w-6")
    assert {number % 4 for number, _ in inside} == {0, 2} and {number % 4 for number in heads} == {0}
    for number in {number for number, _ in inside}:
        if (number, near) in inside and (number, far) in inside:
            assert not torch.equal(inside[number, near]["w-1"], inside[number, far]["w-2"])


def test_little_crosses_between_sites() -> None:
    """One head per site: each sends a model per period; inside sites it is as before. Half as often, half as much."""
    wide = {}
    for period in (4, 8):
        log = spied(two_sites().job("local_sgd", period=period, site_period=2, epochs=8), timing_only=True)
        length = len(log.story.session.nodes["w-1"].model.vector)
        crossing = sent(log, GroupShare, GroupMean, LocalSgdMean, wide=True)
        assert set(crossing) == {"w-1", "w-2"}
        assert crossing["w-1"] % length == 0
        wide[period] = crossing["w-1"]
    assert wide[4] == pytest.approx(2 * wide[8], abs=length)
    flat = spied(two_sites().job("local_sgd", period=4, epochs=8), timing_only=True)
    assert sum(sent(flat, GroupShare, GroupMean, wide=True).values()) > 2 * 2 * wide[4]


def meeting_numbers(log: Log, generation: int) -> list[int]:
    return sorted({act.what.number for act in log.of("send", GroupShare) if act.generation == generation})


def test_post_local_meets_every_step_at_first_and_does_not_go_back() -> None:
    """The first part of the run, not of a program: whoever dies later does not bring it back."""
    steady = dict(strategy="local_sgd", continuum=small_continuum((50.0,) * 3), planner="fair", epochs=4)
    log = spied(small_job(**steady, post=0.5, period=8), timing_only=True)
    steps = 4 * 10
    assert meeting_numbers(log, 1) == [*range(1, steps // 2 + 1), *range(24, steps, 8)]
    time_s = log.story.time_s
    early = spied(small_job(**steady, post=0.5, period=8, faults=[fail_at("w-3", 0.2 * time_s)]), timing_only=True)
    late = spied(small_job(**steady, post=0.5, period=8, faults=[fail_at("w-3", 0.8 * time_s)]), timing_only=True)
    again = [n for n in meeting_numbers(early, 2) if n]
    assert again[:5] == [1, 2, 3, 4, 5] and len(again) < 25
    assert all(number % 8 == 0 for number in meeting_numbers(late, 2))
    assert meeting_numbers(late, 2)[0] == 0  # they begin on common ground


def test_workers_without_work_do_not_hold_up_the_others() -> None:
    """They pass a round in the time that a step takes, and meet the others in time."""
    lone = simulate(small_job(strategy="local_sgd", continuum=small_continuum((100.0, 20.0)), planner="fair", period=4),
                    timing_only=True)  # fmt: skip
    slow = lone.plan.workers[1]
    assert lone.time_s < 1.1 * 2 * slow.shard / slow.samples_per_s


def test_half_the_bytes_leave_everybody_with_the_same() -> None:
    """With float16 on the wire, the owner of a part takes what the others get."""
    with Meetings() as meetings:
        simulate(replace(small_job(strategy="local_sgd", period=2), wire="float16"))
    assert meetings.results
    for results in meetings.results.values():
        assert all(torch.equal(results["w-1"], other) for other in results.values())


@pytest.mark.parametrize("settings", [{"period": 4}, {"period": 4, "site_period": 2, "slow_momentum": 0.5}])
def test_contract(settings: dict[str, Any]) -> None:
    check_strategy("local_sgd", **settings)
    check_strategy("local_sgd", [fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


def test_contract_with_processes(forge: Forge) -> None:
    check_strategy("local_sgd", run=lambda job: live(job, launcher=forge), period=4, site_period=2, post=0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"period": 0}, {"period": 1.5}, {"site_period": -1}, {"period": 16, "site_period": 5}, {"post": 1.5},
        {"slow_momentum": 1.0}, {"slow_rate": 0.0}, {"perod": 2},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_with_a_remedy(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refusal:
        make_strategy("local_sgd", wrong)
    assert refusal.value.remedy
