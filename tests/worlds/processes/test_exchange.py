"""The all-reduce between processes, played by coroutines that hand messages to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from littoral.learning.learner import Holder
from littoral.learning.leases import Lease, Span
from littoral.learning.task import Recipe
from littoral.worlds.node import Gradient, Message, Received, Reduced, narrowed, widened
from littoral.worlds.processes.exchange import exchange


class Player:
    """A member whose messages go straight into the others' hands."""

    def __init__(
        self, name: str, members: tuple[str, ...], table: dict[str, Player], narrow: bool, reducing: dict[str, float]
    ) -> None:
        self.name, self.members, self._table = name, members, table
        self.plan = SimpleNamespace(reducing=reducing)
        self.messages = 0
        self.model = Holder(torch.zeros(1), Recipe(lr=0.1), 1)
        self.sent = 0
        self.narrow = narrow
        self._inbox: list[tuple[str, Message]] = []
        table[name] = self

    async def send(self, target: str, message: Message) -> None:
        message = narrowed(message) if self.narrow else message
        self.sent += message.size
        self.messages += 1
        await asyncio.sleep(0)
        self._table[target]._inbox.append((self.name, message))

    async def receive(self, *kinds: type[Message], sender: str | None = None) -> Received:
        while True:
            for index, (source, message) in enumerate(self._inbox):
                if source == sender and isinstance(message, kinds):
                    del self._inbox[index]
                    return Received(source, widened(message) if self.narrow else message)
            await asyncio.sleep(0)


def gradient(seed: int, samples: int, length: int = 103) -> Gradient:
    lease = Lease(seed, f"w-{seed}", (Span(0, f"w-{seed}", 0, samples),)) if samples else None
    vector = torch.randn(length, generator=torch.Generator().manual_seed(seed)) if samples else torch.zeros(length)
    return Gradient(vector, samples, lease, None)


def reduce(
    gradients: list[Gradient], narrow: bool = False, weights: Sequence[float] = ()
) -> tuple[list[tuple[Reduced, Any]], list[Player]]:
    members = tuple(f"w-{i}" for i in range(len(gradients)))
    table: dict[str, Player] = {}
    reducing = dict(zip(members, weights, strict=False))
    players = [Player(name, members, table, narrow, reducing) for name in members]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(exchange(p, g, 1) for p, g in zip(players, gradients, strict=True)))  # type: ignore[arg-type]

    return asyncio.run(all_of_them()), players


@pytest.mark.parametrize("samples", [[4], [8, 8], [8, 4, 2], [5, 0, 3, 7, 1]])
def test_everyone_gets_the_same_weighted_mean(samples: list[int]) -> None:
    gradients = [gradient(i, count) for i, count in enumerate(samples)]
    results, _ = reduce(gradients)
    expected = sum(g.vector * g.samples for g in gradients) / sum(samples)
    for reduced, leases in results:
        assert reduced.samples == sum(samples)
        torch.testing.assert_close(reduced.vector, expected)
        assert torch.equal(reduced.vector, results[0][0].vector)  # bit for bit
        assert [lease.worker for lease in leases] == [f"w-{i}" for i, count in enumerate(samples) if count]


def test_a_round_without_samples_says_so() -> None:
    results, _ = reduce([gradient(i, 0) for i in range(3)])
    assert all(reduced.samples == 0 and not leases for reduced, leases in results)


def test_it_sends_the_bytes_of_a_ring() -> None:
    n, length = 4, 10_000
    _, players = reduce([gradient(i, 8, length) for i in range(n)])
    for player in players:
        assert player.sent == pytest.approx(2 * (n - 1) / n * 4 * length, rel=0.05)


def test_half_the_bytes_give_everyone_the_same_rounded_mean() -> None:
    gradients = [gradient(i, count, 10_000) for i, count in enumerate([8, 4, 2])]
    (whole, players), (half, narrow_players) = reduce(gradients), reduce(gradients, narrow=True)
    assert all(torch.equal(reduced.vector, half[0][0].vector) for reduced, _ in half)  # bit for bit
    torch.testing.assert_close(half[0][0].vector, whole[0][0].vector, rtol=2e-3, atol=1e-3)
    assert not torch.equal(half[0][0].vector, whole[0][0].vector)
    assert narrow_players[0].sent == pytest.approx(players[0].sent / 2, rel=0.05)


@pytest.mark.parametrize("weights", [(1, 0, 0, 0), (2, 1, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)])
@pytest.mark.parametrize("samples", [[8, 4, 2, 6], [5, 0, 3, 0]])
def test_whoever_owns_what_the_mean_is_the_same(weights: tuple[float, ...], samples: list[int]) -> None:
    gradients = [gradient(i, count) for i, count in enumerate(samples)]
    (equal, _), (results, _) = reduce(gradients), reduce(gradients, weights=weights)
    for reduced, leases in results:
        assert torch.equal(reduced.vector, equal[0][0].vector)  # bit for bit
        assert (reduced.samples, leases) == (sum(samples), equal[0][1])


def test_who_owns_nothing_sends_the_vector_once() -> None:
    _, players = reduce([gradient(i, 8, 10_000) for i in range(4)], weights=(1, 1, 0, 0))
    assert [player.messages for player in players] == [4, 4, 2, 2]
    assert players[3].sent == pytest.approx(4 * 10_000, rel=0.05)
    assert players[0].sent == pytest.approx(4 * 10_000 / 2 * (1 + 3), rel=0.05)
