"""Federated averaging: what rounds, mixtures and buffers promise, message by message and in whole runs."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, cases, spied

from littoral.errors import InputError
from littoral.events import Computed
from littoral.job import Fault, Job
from littoral.learning.leases import Lease, Span
from littoral.strategies.federated import FedAsync, FedAvg, FedBuff, FedFinish, FedModel, FedPull, FedReport
from littoral.strategies.strategy import make_strategy
from littoral.testing import Story, check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge

NAMES = ["fedavg", "fedasync", "fedbuff"]


# -- coincidences ------------------------------------------------------------------------------------------------


def equal_job(strategy: str, workers: int = 3, **settings: Any) -> Job:
    """Equal workers, whole batches, plain SGD: coincidences are exact but for rounding."""
    task = {"samples": 24 * workers, "batch": 4}
    job = small_job(strategy=strategy, continuum=small_continuum([50.0] * workers), planner="fair", epochs=2,
                    task=task, **settings)  # fmt: skip
    return replace(job, recipe={"warmup": 0})


def model_of(story: Story) -> torch.Tensor:
    session = story.session
    sources = session.strategy.sources(session.plan, session.members, 0)
    vectors = [session.nodes[source.node].model.vector for source in sources]
    return sum(vectors) / len(vectors) if story.plan.strategy != "allreduce" else vectors[0]


def close(ours: Job, theirs: Job) -> None:
    torch.testing.assert_close(model_of(simulate(ours)), model_of(simulate(theirs)), atol=1e-5, rtol=1e-4)


def test_fedavg_of_one_step_is_synchronous_sgd() -> None:
    close(equal_job("fedavg", local_steps=1), equal_job("allreduce"))


def test_fedavg_is_local_sgd_with_a_server() -> None:
    close(equal_job("fedavg", local_steps=4), equal_job("local_sgd", period=4))


def test_an_epoch_is_so_many_steps() -> None:
    close(equal_job("fedavg", local_steps=3), equal_job("fedavg", local_epochs=0.5))
    assert [FedAvg(local_epochs=0.5).steps(shard, 4) for shard in (24, 25, 1)] == [3, 4, 1]
    assert FedAvg(local_steps=7).steps(24, 4) == 7


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [("fedavg", {}), ("fedasync", {"alpha": 1.0, "rho": 0.0}), ("fedbuff", {"server_lr": 1.0})],
)
def test_a_lone_client_is_its_optimiser_alone(strategy: str, settings: dict[str, Any]) -> None:
    """The sheet's second invariant, with an optimiser that remembers from report to report."""
    ours, alone = equal_job(strategy, 1, local_steps=2, **settings), equal_job("allreduce", 1)
    recipe = {"warmup": 0, "momentum": 0.9}
    close(replace(ours, recipe=recipe), replace(alone, recipe=recipe))


def test_a_proximal_term_holds_clients_back() -> None:
    """The shorter way from the model they were given, in every report."""
    moved = {}
    for rho in (0.0, 2.0):
        log = spied(equal_job("fedavg", rho=rho))
        moved[rho] = [float(act.what.vector.norm()) for act in log.of("send", FedReport)][:3]
    assert all(held < 0.95 * free for held, free in zip(moved[2.0], moved[0.0], strict=True))


# -- desks, message by message -----------------------------------------------------------------------------------


class FakeModel:
    """A vector, and the mean that real models take."""

    def __init__(self) -> None:
        self.vector, self.trained = torch.zeros(2), 2

    def load(self, vector: torch.Tensor, start: int = 0) -> None:
        self.vector = vector

    def snapshot(self) -> torch.Tensor:
        return self.vector

    def mean(self, parts: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
        return sum(vector * weight for vector, weight in parts) / sum(weight for _, weight in parts)


@dataclass
class FakeNode:
    """A server's node, without a world; ``void`` are clients whose leases are not valid any more."""

    members: tuple[str, ...]
    model: FakeModel = field(default_factory=FakeModel)
    committed: list[Lease] = field(default_factory=list)
    released: list[Lease] = field(default_factory=list)
    void: set[str] = field(default_factory=set)

    @property
    def plan(self) -> Any:
        return SimpleNamespace(worker=lambda name: SimpleNamespace(batch=4))

    def random(self, stream: str) -> random.Random:
        return random.Random(stream)

    async def commit(self, leases: list[Lease]) -> list[bool]:
        valid = [lease.worker not in self.void for lease in leases]
        self.committed += [lease for lease, good in zip(leases, valid, strict=True) if good]
        return valid

    async def release(self, leases: list[Lease]) -> None:
        self.released += leases


def now(program: Any) -> Any:
    """The result of a coroutine that never waits: between a commit and its step nothing may."""
    try:
        program.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Office:
    """A desk that is told things, and what it says: who got which version."""

    def __init__(self, strategy: Any, clients: str = "abcd") -> None:
        self.node = FakeNode(tuple(clients))
        self.desk = strategy.desk(self.node)
        self.holding: dict[str, int] = {}
        self.batches: dict[str, float] = {}
        self.numbers = iter(range(10**6))

    def settle(self) -> list[str]:
        chosen, batch = now(self.desk.settle())
        self.holding |= dict.fromkeys(chosen, self.desk.version)
        self.batches |= dict.fromkeys(chosen, batch)
        return sorted(chosen)

    def pull(self, clients: str) -> list[str]:
        for client in clients:
            self.desk.wait(client)
        return self.settle()

    def report(self, client: str, vector: list[float], samples: int = 8) -> list[str]:
        leases = tuple(Lease(next(self.numbers), client, (Span(0, client, 0, samples // 2),)) for _ in range(2))
        message = FedReport(self.holding.pop(client), samples, leases, torch.tensor(vector))
        now(self.desk.report(client, message))
        return self.settle()

    @property
    def model(self) -> list[float]:
        return [round(float(x), 5) for x in self.node.model.vector]


def test_a_round_waits_for_all_and_weighs_by_samples() -> None:
    """Weights sum to one: 8 and 24 samples of 32 in all."""
    office = Office(FedAvg(), "ab")
    assert office.pull("a") == []
    assert office.pull("b") == ["a", "b"]
    assert office.batches == {"a": 8.0, "b": 8.0}
    assert office.report("a", [4.0, 1.0], samples=8) == []
    assert office.model == [0.0, 0.0]
    assert office.report("b", [0.0, 1.0], samples=24) == ["a", "b"]
    assert office.model == [1.0, 1.0]
    assert len(office.node.committed) == 4


def test_a_lost_client_does_not_hold_up_a_round() -> None:
    office = Office(FedAvg(), "abc")
    office.pull("abc")
    office.report("a", [4.0, 4.0])
    office.report("b", [1.0, 1.0])
    office.desk.lose("a")  # its samples are others' now: what it reported must not count
    assert office.settle() == []
    office.desk.lose("c")
    assert office.settle() == ["b"]
    assert office.model == [1.0, 1.0]
    assert {lease.worker for lease in office.node.committed} == {"b"}
    office.desk.forget("b")
    assert office.settle() == []
    assert office.pull("c") == ["c"]  # it is back, and there is nobody else


def test_a_fraction_trains_and_the_others_wait_their_turn() -> None:
    office = Office(FedAvg(fraction=0.5))
    served: dict[str, int] = defaultdict(int)
    chosen = office.pull("abcd")
    for _ in range(40):
        assert len(chosen) == 2 and office.batches[chosen[0]] == 8.0
        for client in chosen:
            served[client] += 1
            after = office.report(client, [1.0, 1.0])
        chosen = after
    assert set(served) == set("abcd") and min(served.values()) > 5
    assert office.model == [40.0, 40.0]


def test_reports_are_used_whole_or_not_at_all() -> None:
    """Neither half of a report of void leases may count: nothing of it is committed, all of it is leased again."""
    for strategy in (FedAvg(), FedBuff(buffer=2)):
        office = Office(strategy, "ab")
        office.pull("ab")
        office.node.void = {"a"}
        office.report("a", [100.0, 100.0])
        office.report("b", [1.0, 1.0])
        assert office.model == [1.0, 1.0]
        assert [lease.worker for lease in office.node.committed] == ["b", "b"]
        assert [lease.worker for lease in office.node.released] == ["a", "a"]
        assert {"a", "b"} <= set(office.holding)  # and both go on


def test_a_client_declared_lost_yet_alive_starts_again() -> None:
    office = Office(FedAsync(), "ab")
    office.pull("ab")
    office.desk.lose("a")
    assert office.report("a", [9.0, 9.0]) == ["a"]
    assert office.model == [0.0, 0.0] and len(office.node.released) == 2


def test_a_mixture_moves_by_alpha_and_less_when_stale() -> None:
    office = Office(FedAsync(alpha=0.5), "ab")
    office.pull("ab")
    office.report("a", [1.0, 0.0])
    assert office.model == [0.5, 0.0]
    office.report("b", [0.0, 1.0])  # of staleness 1
    share = 0.5 * 2**-0.5
    assert office.model == [round(0.5 * (1 - share), 5), round(share, 5)]


def test_a_buffer_takes_one_step_per_so_many_reports() -> None:
    office = Office(FedBuff(buffer=3))
    office.pull("abcd")
    assert office.report("a", [3.0, 0.0]) == ["a"]  # which goes on at once
    office.report("b", [0.0, 3.0])
    assert office.model == [0.0, 0.0]
    office.report("c", [3.0, 3.0])
    assert office.model == [2.0, 2.0] and office.desk.version == 1
    office.report("a", [1.0, 1.0])
    office.report("d", [1.0, 1.0])  # both of version 0: stale by one
    office.report("c", [1.0, 1.0])
    assert office.model == [round(2.0 + (1 + 2 * 2**-0.5) / 3, 5)] * 2


def test_a_full_buffer_of_fresh_reports_is_a_round() -> None:
    """K = #clients is near-synchronous: the first step is FedAvg's."""
    models = []
    for strategy in (FedAvg(), FedBuff(buffer=4)):
        office = Office(strategy)
        office.pull("abcd")
        for i, client in enumerate("abcd"):
            office.report(client, [float(i), -1.0], samples=4 + 2 * i)
        models.append(office.model)
    assert models[0] == models[1] != [0.0, 0.0]


def test_the_last_reports_do_not_wait_for_a_buffer_that_nobody_fills() -> None:
    office = Office(FedBuff(buffer=3), "ab")
    office.pull("ab")
    office.report("a", [2.0, 2.0])
    office.desk.forget("a")
    office.settle()
    assert office.model == [2.0, 2.0]  # b alone makes a buffer of one


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 3))
def test_too_stale_is_never_applied(seed: int, buffer: int, most: int) -> None:
    """Reports in any order: no step by one staler than ``max_staleness``; its samples are leased again."""
    dice = random.Random(seed)
    office = Office(FedBuff(buffer=buffer, max_staleness=most))
    office.pull("abcd")
    fresh = stale = 0
    for _ in range(30):
        client = dice.choice("aabbc") if dice.random() < 0.9 else "d"  # d is slow
        too_old = office.desk.version - office.holding[client] > most
        fresh, stale = fresh + (not too_old), stale + too_old
        office.report(client, [0.0, 1000.0] if too_old else [1.0, 0.0])
    assert office.model[1] == 0.0
    assert len(office.node.released) == 2 * stale
    assert len(office.node.committed) == 2 * (fresh - len(office.desk.reports))


def test_server_momentum_goes_on_by_itself() -> None:
    plain, heavy = (Office(FedBuff(buffer=1, server_momentum=momentum), "a") for momentum in (0.0, 0.9))
    for office in (plain, heavy):
        office.pull("a")
        office.report("a", [1.0, 1.0])
        office.report("a", [1.0, 1.0])
    assert plain.model == [2.0, 2.0]
    assert heavy.model == [pytest.approx(1.9 + (1 + 0.9 * 1.9), abs=1e-4)] * 2


@given(st.floats(0.0, 3.0), st.floats(0.0, 20.0), st.integers(0, 10))
def test_damping_begins_at_one_and_never_grows(power: float, slope: float, grace: int) -> None:
    """Invariant 6."""
    strategies: list[Any] = [FedBuff()]
    strategies += [FedAsync(damping=d, power=power, slope=slope, grace=grace) for d in ("constant", "poly", "hinge")]
    for strategy in strategies:
        factors = [strategy.damp(staleness) for staleness in range(30)]
        assert factors[0] == 1.0
        assert factors == sorted(factors, reverse=True)
        assert min(factors) >= 0.0
    assert FedAsync(damping="hinge").damp(4) == 1.0 and FedAsync(damping="hinge").damp(5) == pytest.approx(1 / 11)


# -- whole runs --------------------------------------------------------------------------------------------------

WAYS = st.sampled_from(
    [
        ("fedavg", {"local_steps": 3}),
        ("fedavg", {"local_epochs": 0.5, "fraction": 0.5}),
        ("fedasync", {"local_steps": 3}),
        ("fedasync", {"local_steps": 2, "damping": "hinge", "rho": 0.1}),
        ("fedbuff", {"local_steps": 3, "buffer": 2}),
        ("fedbuff", {"local_steps": 2, "max_staleness": 0}),
    ]
)


@given(case=cases(crashes=True), way=WAYS)
def test_every_sample_counts_once_whoever_dies(case: Case, way: tuple[str, dict[str, Any]]) -> None:
    strategy, settings = way
    log = spied(case.job(strategy, **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    if strategy == "fedavg":
        check_rounds(log)
    check_conversation(log)


def check_rounds(log: Log) -> None:
    """Nobody gets the model of a round before everybody in the one before has reported, finished or left."""
    training: dict[str, int] = {}
    for act in log.acts:
        if act.node == "ps-1" and act.kind == "received":
            training.pop(getattr(act.what, "node", act.peer), None)
        elif act.kind == "send" and isinstance(act.what, FedModel):
            assert set(training.values()) <= {act.what.version}
            training[act.peer] = act.what.version


def check_conversation(log: Log) -> None:
    """A pull or a report per model and life, whole vectors both ways, and a last word."""
    length = len(log.story.session.nodes["ps-1"].model.vector)
    asked: dict[str, int] = defaultdict(int)
    gradients: dict[str, Any] = {}
    for act in log.acts:
        if act.kind == "computed":
            gradients[act.node] = act.what
        elif act.kind == "update":  # a step of less than a batch is that much shorter
            assert act.what[1] == gradients[act.node].samples / log.story.plan.worker(act.node).batch
        if act.kind == "received" and act.node == "ps-1" and isinstance(act.what, FedPull | FedReport):
            asked[act.peer] += 1
        elif act.kind == "send" and isinstance(act.what, FedModel):
            asked[act.peer] -= 1
            assert asked[act.peer] >= 0 or log.story.session.job.faults
        if isinstance(act.what, FedModel | FedReport):
            assert len(act.what.vector) == length
        if isinstance(act.what, FedReport):
            assert act.what.samples == sum(lease.samples for lease in act.what.leases) > 0


def test_a_worker_without_work_says_so() -> None:
    story = spied(small_job(strategy="fedasync", planner="fair"), timing_only=True)
    assert {act.node for act in story.of("send", FedFinish)} >= {"w-1", "w-2"}


def test_only_rounds_wait_for_the_slow() -> None:
    counts = {}
    for name in NAMES:
        job = small_job(strategy=name, continuum=small_continuum([100.0] * 3), local_steps=2, planner="fair", epochs=8)
        slow = Fault(at_s=0.5, kind="slow-device", node="w-3", factor=0.1)
        story = simulate(replace(job, faults=(slow,)), timing_only=True)
        counts[name] = sum(event.node == "w-1" and event.t < 5.0 for event in story.of(Computed))
    assert min(counts["fedasync"], counts["fedbuff"]) > 2 * counts["fedavg"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "faults",
    [[], [fail_at("w-2", 0.6, back_after_s=1.5)], [fail_at("w-1", 0.6)], [fail_at("ps-1", 1.5, back_after_s=1)]],
)
def test_the_contract(name: str, faults: list[Fault]) -> None:
    check_strategy(name, faults, local_steps=3)


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_with_processes(name: str, forge: Forge) -> None:
    check_strategy(name, run=lambda job: live(job, launcher=forge), local_steps=3)


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_dies_and_returns(name: str, forge: Forge) -> None:
    job = small_job(strategy=name, epochs=6, task={"samples": 600}, faults=[fail_at("w-2", 0.2, back_after_s=0.1)])
    story = live(job, launcher=forge)
    assert story.reason == "epochs" and story.contradictions() == []
    assert story.accuracies[-1] > 0.9


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("fedavg", {"local_steps": 0}, "at least 1"),
        ("fedavg", {"local_epochs": -1}, "at least 0"),
        ("fedavg", {"fraction": 0}, "at least 1e-09"),
        ("fedavg", {"fraction": 1.5}, "at most 1"),
        ("fedavg", {"servers": 2}, "has no parameter 'servers'"),
        ("fedasync", {"alpha": 0}, "at least 1e-06"),
        ("fedasync", {"damping": "polly"}, "did you mean 'poly'"),
        ("fedasync", {"rho": -1}, "at least 0"),
        ("fedbuff", {"buffer": 0}, "at least 1"),
        ("fedbuff", {"max_staleness": 1.5}, "whole number"),
        ("fedbuff", {"server_momentum": 1}, "at most 0.999"),
    ],
)
def test_wrong_settings_are_refused_with_a_remedy(name: str, settings: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make_strategy(name, settings)
