"""DiLoCo: what it coincides with, what every outer step keeps to, and that nothing is half done whoever dies."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Act, Case, Log, cases, spied

from littoral.errors import InputError
from littoral.events import Computed
from littoral.job import Fault, Job
from littoral.learning.codecs import make_codec
from littoral.strategies.diloco import CODECS, DiLoCo, Fragment, OuterDelta, OuterModel, local_steps
from littoral.strategies.groups import GroupMean, GroupShare
from littoral.strategies.outer import DelayedNesterov, Nesterov
from littoral.strategies.strategy import make_strategy
from littoral.testing import MemoryKeeper, Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.node import PeerLost
from littoral.worlds.processes.launch import Forge

PLAIN = {"outer_lr": 1.0, "outer_momentum": 0.0}


def mean_model(story: Story) -> torch.Tensor:
    """What the run is judged by."""
    nodes = story.session.nodes
    return sum(nodes[name].model.vector for name in story.session.members) / len(story.session.members)


def equal_job(strategy: str, workers: int = 3, **settings: Any) -> Job:
    """Equal workers, whole batches, plain SGD: coincidences are exact but for rounding."""
    continuum = small_continuum([50.0] * workers)
    task = {"samples": 24 * workers, "batch": 4}
    job = small_job(strategy=strategy, continuum=continuum, planner="fair", epochs=2, task=task, **settings)
    return replace(job, recipe={"warmup": 0})


def close(ours: Job, theirs: Job) -> None:
    torch.testing.assert_close(mean_model(simulate(ours)), mean_model(simulate(theirs)), atol=1e-5, rtol=1e-4)


# -- coincidences ------------------------------------------------------------------------------------------------


def test_period_one_without_momentum_is_synchronous_sgd() -> None:
    """Invariant 1, first half."""
    close(equal_job("diloco", period=1, **PLAIN), equal_job("allreduce"))


@pytest.mark.parametrize("period", [1, 4, 5])
def test_without_outer_momentum_it_is_local_sgd(period: int) -> None:
    """Invariant 1, second half; 5 does not divide the 12 steps."""
    close(equal_job("diloco", period=period, **PLAIN), equal_job("local_sgd", period=period))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_one_worker_without_outer_momentum_is_its_optimiser_alone(mode: str) -> None:
    """Invariant 2, with an optimiser that remembers."""
    ours, alone = equal_job("diloco", 1, period=3, mode=mode, **PLAIN), equal_job("allreduce", 1)
    recipe = {"warmup": 0, "momentum": 0.9}
    close(replace(ours, recipe=recipe), replace(alone, recipe=recipe))


def test_one_worker_reports_to_itself_as_it_meets_itself() -> None:
    close(*(equal_job("diloco", 1, period=3, mode=mode, outer_momentum=0.9) for mode in ("sync", "async")))


def test_streaming_one_fragment_is_diloco() -> None:
    """Invariant 5, first half: what an overlap changes, nothing else does. And an overlap does."""
    plain, still, moving = (
        mean_model(simulate(equal_job("diloco", period=4, **settings)))
        for settings in ({}, {"fragments": 1, "overlap": 0, "alpha": 0.9}, {"overlap": 2, "alpha": 0.9})
    )
    assert torch.equal(plain, still)
    assert not torch.allclose(plain, moving, atol=1e-4)


# -- outer optimisers --------------------------------------------------------------------------------------------

slopes = st.lists(st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3), min_size=1, max_size=4)
rates = st.tuples(st.floats(0.1, 1.5), st.floats(0.0, 0.95))


@given(slopes, rates)
def test_nesterov_is_torchs(given_slopes: list[list[float]], rate: tuple[float, float]) -> None:
    lr, momentum = rate
    vector, outer = torch.ones(3), Nesterov(lr=lr, momentum=momentum, trained=3)
    theirs = torch.ones(3, requires_grad=True)
    sgd = torch.optim.SGD([theirs], lr=lr, momentum=momentum, nesterov=momentum > 0)
    for slope in map(torch.tensor, given_slopes):
        before = vector.clone()
        after = outer.step(vector, slope)
        assert torch.equal(vector, before)  # somebody may be reading it
        vector, theirs.grad = after, slope.clone()
        sgd.step()
    torch.testing.assert_close(vector, theirs.detach(), atol=1e-4, rtol=1e-4)


@given(slopes, rates, st.integers(1, 3))
def test_a_cycle_of_delayed_steps_is_one_step_of_nesterov(
    given_slopes: list[list[float]], rate: tuple[float, float], members: int
) -> None:
    lr, momentum = rate
    one, many = torch.zeros(3), torch.zeros(3)
    outer = Nesterov(lr=lr, momentum=momentum, trained=3)
    delayed = DelayedNesterov(lr=lr, momentum=momentum, trained=3, every=members)
    for slope in map(torch.tensor, given_slopes):
        one = outer.step(one, slope)
        for _ in range(members):
            many = delayed.step(many, slope / members)
        torch.testing.assert_close(one, many, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [Nesterov, DelayedNesterov])
def test_statistics_take_the_mean_and_nothing_more(kind: Any) -> None:
    outer = kind(lr=0.7, momentum=0.9, trained=1, **({"every": 1} if kind is DelayedNesterov else {}))
    vector = torch.tensor([1.0, 1.0])
    for _ in range(5):  # everybody measures 0.5 less, then 0.25, ...: it must never get below zero
        vector = outer.step(vector, vector * 0.5)
    assert vector[1] == 0.5**5
    assert vector[0] < 0.0


# -- every outer step --------------------------------------------------------------------------------------------


@dataclass
class Meetings:
    """What happened inside nodes during outer steps, by generation and number of the meeting."""

    places: dict[tuple[int, int], dict[str, slice]] = field(default_factory=lambda: defaultdict(dict))
    common: dict[tuple[int, int], dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    held: dict[tuple[int, int], dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    begun_at: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))  # steps
    finished_at: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    ground: dict[int, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    memories: dict[str, Any] = field(default_factory=dict)


def watched(job: Job, *, timing_only: bool = False) -> tuple[Log, Meetings]:
    """A run whose outer steps are noted, and that optimisers are the same before and after."""
    seen, begin, finish, together = Meetings(), Fragment.begin, Fragment.finish, DiLoCo._together
    steps: dict[tuple[int, str], int] = defaultdict(int)

    def count(act: Act) -> None:
        steps[act.generation, act.node] += act.kind == "computed"

    def noted_begin(self: Any, meeting: int) -> None:
        node = self._node
        self._meeting = node.generation, meeting
        seen.places[self._meeting][node.name] = self._place
        seen.begun_at[self._meeting].add(steps[node.generation, node.name])
        begin(self, meeting)

    async def noted_finish(self: Any) -> None:
        node = self._node
        seen.finished_at[self._meeting].add(steps[node.generation, node.name])
        before = memory_of(node)
        await finish(self)
        assert all(torch.equal(value, memory_of(node)[name]) for name, value in before.items())
        seen.memories[node.name] = before
        seen.common[self._meeting][node.name] = self._theta
        seen.held[self._meeting][node.name] = node.model.vector[self._place].clone()

    async def noted_together(self: Any, node: Any, theta: Any) -> None:
        seen.ground[node.generation][node.name] = theta
        await together(self, node, theta)

    noted = patch.multiple(Fragment, begin=noted_begin, finish=noted_finish)
    with noted, patch.object(DiLoCo, "_together", noted_together):
        return spied(job, timing_only=timing_only, watch=count), seen


def memory_of(node: Any) -> dict[str, torch.Tensor]:
    """What the node's optimiser remembers."""
    optimizer = getattr(node.model, "_optimizer", None)
    return {name: value.clone() for name, value in optimizer.state().items()} if optimizer else {}


@pytest.mark.parametrize("fragments", [1, 2])
def test_after_an_outer_step_all_hold_the_same_and_optimisers_stay_their_own(fragments: int) -> None:
    """Invariant 3."""
    job = small_job(strategy="diloco", period=4, fragments=fragments, outer_momentum=0.9, outer_lr=0.7, epochs=3)
    log, seen = watched(replace(job, recipe={"momentum": 0.9}))
    assert len(seen.common) > 3
    for meeting, common in seen.common.items():
        first = next(iter(common.values()))
        assert all(torch.equal(first, other) for other in common.values())
        assert all(torch.equal(first, held) for held in seen.held[meeting].values())
    velocities = [memory["velocity"] for memory in seen.memories.values()]
    assert not torch.equal(velocities[0], velocities[1])
    assert not {type(act.what) for act in log.of("send")} - {GroupShare, GroupMean}  # no memory is ever sent


SETTINGS = st.sampled_from([(6, 1, 0), (6, 1, 5), (6, 3, 0), (6, 3, 1), (4, 2, 1), (1, 1, 0), (5, 5, 0)])


@given(case=cases(crashes=True), schedule=SETTINGS, codec=st.sampled_from(CODECS))
def test_schedule_bytes_and_samples(case: Case, schedule: tuple[int, int, int], codec: str) -> None:
    """Invariants 4, 5 and 9, whoever dies: bytes of a collective, one fragment at a time and each once a period, the
    same on all, from common ground in every new group; and every sample counts once.
    """
    period, fragments, overlap = schedule
    job = case.job("diloco", period=period, fragments=fragments, overlap=overlap, codec=codec)
    log, seen = watched(job, timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    interval = period // fragments
    for key, places in seen.places.items():
        assert seen.begun_at[key] == {key[1] * interval}
        assert seen.finished_at.get(key, set()) <= {key[1] * interval + overlap}
        assert len(set(map(str, places.values()))) == 1
    for generation, meeting in seen.places:  # the fragments that lie between two of the same are all the others
        turn = [seen.places.get((generation, meeting + i)) for i in range(fragments)]
        if all(turn):
            length = len(log.story.session.nodes[log.story.plan.workers[0].name].model.vector)
            parts = sorted((place.start, place.stop) for places in turn for place in list(places.values())[:1])
            assert [start for start, _ in parts] + [length] == [0] + [stop for _, stop in parts]
            assert max(stop - start for start, stop in parts) <= math.ceil(length / fragments)
    for act in log.of("send", GroupShare):
        assert act.what.number > 0 or act.generation > 1
    check_bytes(log, seen, codec)


def check_bytes(log: Log, seen: Meetings, codec: str) -> None:
    """2 (k-1)/k of a fragment leave every port per meeting, at the codec's bits; nothing else does."""
    width = (lambda elements: 4 * elements) if codec == "none" else make_codec(codec).nbytes
    sent: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for act in log.of("send"):
        sent[act.generation, act.what.number, act.node, type(act.what)].append(act.what.vector.nbytes)
    for (generation, meeting), places in seen.places.items():
        for node, place in places.items():
            shares, means = (sent[generation, meeting, node, kind] for kind in (GroupShare, GroupMean))
            assert len(means) in (0, len(shares))
            if means:  # not cut short
                k = len(shares) + 1
                part = (place.stop - place.start) / k
                sizes = {width(math.floor(part)), width(math.ceil(part))}
                assert len(shares + means) == 2 * (k - 1) and set(shares + means) <= sizes


@given(case=cases(crashes=True, most=3))
def test_a_new_group_begins_from_the_same_mean(case: Case) -> None:
    """Invariant 9: whatever was under way when a member died, all go on from one model, the mean of what they have."""
    _, seen = watched(case.job("diloco", period=3, samples=24, epochs=1))
    for common in seen.ground.values():
        first = next(iter(common.values()))
        assert all(torch.equal(first, other) for other in common.values())


def test_a_resumed_group_begins_from_common_ground() -> None:
    """Every worker's own model was saved, at a time when they differed."""
    job, keeper = small_job(strategy="diloco", period=7, epochs=3), MemoryKeeper()
    simulate(replace(job, epochs=1), keeper=keeper)
    saved, metadata = keeper.load() or ({}, {})
    vectors = [saved[name] for name in saved if name.endswith("/vector")]
    assert not torch.equal(vectors[0], vectors[1])
    grounds: list[Any] = []
    together = DiLoCo._together

    async def noted(self: Any, node: Any, theta: Any) -> None:
        grounds.append(theta)
        await together(self, node, theta)

    with patch.object(DiLoCo, "_together", noted):
        simulate(replace(job, epochs=1), keeper=Unfinished(saved, metadata), resume=True)
    assert len(grounds) == 3
    assert all(torch.equal(grounds[0], other) for other in grounds)


class Unfinished(MemoryKeeper):
    """A checkpoint of the last epoch with all of its work still to do."""

    def __init__(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        super().__init__()
        ledger = metadata["ledger"]
        shards = {"w-1": 131, "w-2": 65, "w-3": 44}
        assert sum(shards.values()) == ledger["total"]
        todo = {name: [[0, name, 0, size]] for name, size in shards.items()}
        self.saved = tensors, metadata | {"ledger": ledger | {"done": [0], "todo": todo}, "evaluated_at": 0}


def test_a_failed_exchange_leaves_everything_as_it_was() -> None:
    """Invariant 9, where it happens: no mean, no step."""

    async def lost() -> Any:
        raise PeerLost("w-2")

    model = SimpleNamespace(vector=torch.ones(4), trained=4)
    worker = SimpleNamespace(batch=4)
    node = SimpleNamespace(name="w-1", model=model, plan=SimpleNamespace(worker=lambda name: worker))
    part = Fragment(DiLoCo(outer_momentum=0.9), node, torch.zeros(4), 0)  # type: ignore[arg-type]
    part._outer.memory = torch.full((4,), 3.0)
    part._exchange = lost()
    with pytest.raises(PeerLost):
        asyncio.run(part.finish())
    assert part._theta.tolist() == [0.0] * 4 and part._outer.memory.tolist() == [3.0] * 4
    assert model.vector.tolist() == [1.0] * 4


# -- nobody waits ------------------------------------------------------------------------------------------------


@given(st.integers(1, 500), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
def test_local_steps_give_all_the_same_rhythm(period: int, speeds: list[float]) -> None:
    """Invariant 7."""
    steps = local_steps(period, dict(enumerate(speeds)))  # type: ignore[arg-type]
    assert steps[speeds.index(max(speeds))] == max(steps.values()) == period
    seconds = [steps[i] / speed for i, speed in enumerate(speeds)]  # type: ignore[index]
    assert max(seconds) - min(seconds) <= (1 + 1e-9) / min(speeds)
    assert min(steps.values()) >= 1


@given(case=cases(crashes=True), codec=st.sampled_from(["none", "int8"]))
def test_asynchronous_workers_do_as_many_steps_as_they_are_told(case: Case, codec: str) -> None:
    """Invariant 7 in a run, whoever dies: and bytes, one delta up, coded, and one model down per report."""
    log = spied(case.job("diloco", mode="async", period=4, codec=codec, samples=48), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    length = len(log.story.session.nodes[log.story.plan.workers[0].name].model.vector)
    workers = log.story.plan.workers
    planned = local_steps(4, {worker.name: worker.samples_per_s / worker.batch for worker in workers})
    told = {(1, name): steps for name, steps in planned.items()}
    steps: dict[tuple[int, str], int] = defaultdict(int)
    for act in log.acts:
        key = act.generation, act.node
        if act.kind == "computed":
            steps[key] += 1
        elif act.kind == "send" and isinstance(act.what, OuterDelta):
            done = steps.pop(key)
            assert done == told.get(key, done)
            if act.what.vector is not None:
                assert act.what.vector.nbytes == (4 * length if codec == "none" else make_codec(codec).nbytes(length))
        elif act.kind == "received" and isinstance(act.what, OuterModel):
            told[key] = act.what.steps
            assert 1 <= act.what.steps <= 4
            assert len(act.what.vector) == length


def test_the_slow_are_not_waited_for() -> None:
    """One device slows down to a tenth: together all do, apart only it does."""
    continuum = small_continuum([100.0] * 3)
    fast, used = {}, {}
    for mode in ("sync", "async"):
        job = small_job(strategy="diloco", continuum=continuum, mode=mode, period=5, planner="fair", epochs=8)
        story = simulate(replace(job, faults=(Fault(at_s=0.5, kind="slow-device", node="w-3", factor=0.1),)),
                         timing_only=True)  # fmt: skip
        steps = [event for event in story.of(Computed) if event.t < 5.0]
        fast[mode] = sum(event.node == "w-1" for event in steps)
        used[mode] = sum(event.node == "w-3" for event in steps)
    assert fast["async"] > 2 * fast["sync"]
    assert used["async"] > 0


# -- the contract ------------------------------------------------------------------------------------------------

WAYS = [
    {"period": 4},
    {"period": 6, "fragments": 2, "overlap": 2},
    {"period": 4, "mode": "async"},
    {"period": 4, "codec": "fp4"},
]


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("faults", [[], [fail_at("w-2", 0.6, back_after_s=1.5)], [fail_at("w-1", 0.6)]])
def test_the_contract(settings: dict[str, Any], faults: list[Any]) -> None:
    check_strategy("diloco", faults, **settings)


@pytest.mark.parametrize("settings", WAYS[1:])
def test_the_contract_with_processes(settings: dict[str, Any], forge: Forge) -> None:
    check_strategy("diloco", run=lambda job: live(job, launcher=forge), **settings)


def test_a_process_that_dies_and_returns(forge: Forge) -> None:
    job = small_job(strategy="diloco", epochs=6, task={"samples": 600}, period=6, fragments=2, overlap=2,
                    faults=[fail_at("w-2", 0.2, back_after_s=0.1)])  # fmt: skip
    story = live(job, launcher=forge)
    assert story.reason == "epochs" and story.contradictions() == []
    assert story.accuracies[-1] > 0.9


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"mode": "asink"}, "did you mean 'async'"),
        ({"period": 0}, "at least 1"),
        ({"outer_lr": 0}, "at least 1e-06"),
        ({"outer_momentum": 1.0}, "at most 0.999"),
        ({"alpha": 1.5}, "at most 1"),
        ({"codec": "topk:0.01"}, "known: bfloat16"),
        ({"period": 10, "fragments": 4}, "multiple of them"),
        ({"period": 10, "fragments": 5, "overlap": 2}, "below period / fragments"),
        ({"mode": "async", "overlap": 1}, "set 'mode: sync'"),
        ({"fragment": 2}, "did you mean 'fragments'"),
    ],
)
def test_wrong_settings_are_refused_with_a_remedy(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make_strategy("diloco", settings)
