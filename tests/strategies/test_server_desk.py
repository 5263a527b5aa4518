"""A parameter server's promises, message by message, in any order that workers may produce."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from littoral.learning.leases import Lease, Span
from littoral.strategies.parameter_server import Desk, Parameters, ParameterServer, Pull, Push
from littoral.worlds.node import Received


class Model:
    """Remembers which pushes were applied, and in which steps."""

    def __init__(self) -> None:
        self.applied: set[tuple[str, int]] = set()
        self.steps: list[list[Any]] = []

    def snapshot(self) -> frozenset[tuple[str, int]]:
        return frozenset(self.applied)

    def mean(self, parts: list[tuple[Any, float]]) -> list[Any]:
        return [tag for tag, _ in parts]


class FakeNode:
    """A server's node, without a world."""

    def __init__(self, members: list[str]) -> None:
        self.members, self.model, self.sent, self.released = tuple(members), Model(), [], []
        self.plan = SimpleNamespace(worker=lambda name: SimpleNamespace(batch=1))

    async def send(self, target: str, message: Any) -> None:
        self.sent.append((target, message))

    async def commit(self, leases: list[Lease]) -> list[bool]:
        return [True] * len(leases)

    async def release(self, leases: list[Lease]) -> None:
        self.released += leases

    async def update(self, tags: list[Any], samples: float, factor: float, seen: float) -> None:
        self.model.applied |= set(tags)
        self.model.steps.append(tags)


def play(strategy: ParameterServer, seed: int, iterations: int = 12) -> tuple[FakeNode, dict[str, int]]:
    """Workers pull once, then push in random order whenever they hold parameters; checks every answer."""
    dice = random.Random(seed)
    workers = [f"w{i}" for i in range(dice.randint(1, 5))]
    node = FakeNode(workers)
    desk = Desk(strategy, node)  # type: ignore[arg-type]
    clocks = dict.fromkeys(workers, 0)
    holding: dict[str, int] = {}

    def tell(sender: str, message: Any) -> None:
        asyncio.run(desk.take(Received(sender, message)))
        for target, answer in node.sent:
            assert isinstance(answer, Parameters)
            check(target, answer)
            holding[target] = answer.version
        node.sent.clear()

    def check(worker: str, answer: Parameters) -> None:
        clock, seen = clocks[worker], answer.vector
        assert answer.version == len(node.model.steps)
        assert clock - min(clocks.values()) <= strategy.limit  # nobody starts too far ahead
        assert {(worker, c) for c in range(1, clock + 1)} <= seen  # it reads its own writes
        for other, done in clocks.items():  # and everything that is old enough
            bound = min(done, clock - strategy.limit)
            assert {(other, c) for c in range(1, int(max(bound, 0)) + 1)} <= seen

    for worker in dice.sample(workers, len(workers)):
        tell(worker, Pull())
    while min(clocks.values()) < iterations and holding:
        worker = dice.choice(sorted(holding))
        version = holding.pop(worker)
        clocks[worker] += 1
        lease = Lease(0, worker, (Span(0, worker, 0, 4),))
        tell(worker, Push(version, 4, lease, (worker, clocks[worker])))
    return node, clocks


@given(st.integers(0, 2**32), st.integers(0, 4))
def test_reads_include_all_updates_that_are_old_enough(seed: int, bound: int) -> None:
    _, clocks = play(ParameterServer(mode="ssp", bound=bound), seed)
    assert max(clocks.values()) - min(clocks.values()) <= bound + 1


@given(st.integers(0, 2**32))
def test_bsp_applies_one_gradient_of_everyone_per_step(seed: int) -> None:
    node, clocks = play(ParameterServer(mode="bsp"), seed)
    for number, step in enumerate(node.model.steps, start=1):
        assert sorted(step) == sorted((worker, number) for worker in clocks)


@given(st.integers(0, 2**32))
def test_asp_applies_each_push_at_once(seed: int) -> None:
    node, clocks = play(ParameterServer(mode="asp"), seed)
    assert all(len(step) == 1 for step in node.model.steps)
    assert len(node.model.steps) == sum(clocks.values())  # versions count pushes


def test_backups_use_exactly_n_gradients_of_the_step_and_release_the_rest() -> None:
    workers = ["a", "b", "c"]
    node = FakeNode(workers)
    desk = Desk(ParameterServer(mode="bsp", backups=1), node)  # type: ignore[arg-type]

    def tell(sender: str, message: Any) -> list[tuple[str, int]]:
        asyncio.run(desk.take(Received(sender, message)))
        answers = [(target, answer.version) for target, answer in node.sent]
        node.sent.clear()
        return answers

    def push(worker: str, version: int) -> Push:
        return Push(version, 4, Lease(version, worker, ()), (worker, version))

    for worker in workers:
        assert tell(worker, Pull()) == [(worker, 0)]
    assert tell("a", push("a", 0)) == []
    assert tell("b", push("b", 0)) == [("a", 1), ("b", 1)]
    assert tell("c", push("c", 0)) == [("c", 1)]  # too late: dropped, and sent on its way
    assert [lease.worker for lease in node.released] == ["c"]
    assert node.model.steps == [[("a", 0), ("b", 0)]]
    tell("c", push("c", 1))
    assert tell("a", push("a", 1)) == [("c", 2), ("a", 2)]
    assert node.model.steps[1] == [("a", 1), ("c", 1)]


def test_damping_never_lengthens_a_step() -> None:
    for damping in ("none", "inverse", "sqrt"):
        strategy = ParameterServer(damping=damping)
        factors = [strategy.damp(staleness) for staleness in range(20)]
        assert factors[0] == 1.0
        assert factors == sorted(factors, reverse=True)
    assert ParameterServer(damping="inverse").damp(1) == 1.0
    assert ParameterServer(damping="inverse").damp(4) == 0.25
