from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.learning.leases import Ledger, Span, apportion, prove


@given(st.integers(0, 10_000), st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20).filter(lambda w: sum(w) > 0))
def test_apportioned_shares_sum_to_the_whole_and_are_fair(total: int, weights: list[float]) -> None:
    shares = apportion(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - total * weight / sum(weights)) < 1 + 1e-6


def test_a_lease_never_crosses_an_epoch() -> None:
    ledger = Ledger({"a": 10}, epochs=2)
    sizes = []
    while (lease := ledger.lease("a", 4)) is not None:
        sizes.append((lease.spans[0].epoch, lease.samples))
        ledger.finish(lease)
    assert sizes == [(0, 4), (0, 4), (0, 2), (1, 4), (1, 4), (1, 2)]
    assert ledger.left == 0


def test_what_is_upcoming_is_what_the_next_lease_holds() -> None:
    ledger = Ledger({"a": 10, "b": 7}, epochs=2)
    ledger.hand_over("b", {"a": 1.0})
    while foreseen := tuple(ledger.upcoming("a", 4)):
        assert foreseen == tuple(ledger.upcoming("a", 4))  # looking changes nothing
        assert (lease := ledger.lease("a", 4)) is not None and lease.spans == foreseen
    assert ledger.lease("a", 4) is None


def test_finishing_twice_counts_once_and_a_released_lease_is_invalid() -> None:
    ledger = Ledger({"a": 8}, epochs=1)
    first, second = ledger.lease("a", 4), ledger.lease("a", 4)
    assert first and second
    assert ledger.finish(first) == []
    assert ledger.finish(first) == []
    assert ledger.done == 4
    ledger.release(second)
    assert not ledger.is_valid(second)
    assert ledger.is_valid(first)
    again = ledger.lease("a", 4)
    assert again and again.spans == second.spans
    assert ledger.has_work("a")  # until what is leased is used
    assert ledger.finish(again) == [0]
    assert not ledger.has_work("a") and not ledger.has_work("b")


def test_leases_of_before_a_rollback_stay_invalid_after_it() -> None:
    ledger = Ledger({"a": 8}, epochs=1)
    state = ledger.state()
    old = ledger.lease("a", 4)
    assert old
    restored = Ledger.restore(state, after=ledger)
    new = restored.lease("a", 4)
    assert new and new.number != old.number
    assert not restored.is_valid(old)


@given(st.integers(0, 2**32))
def test_every_sample_exactly_once_per_epoch_under_random_crashes_and_restarts(seed: int) -> None:
    """Workers lease, finish, release, die, hand over, come back, and the ledger is saved and restored in between."""
    dice = random.Random(seed)
    shards = {name: dice.randint(0, 40) for name in "abcd"[: dice.randint(1, 4)]}
    epochs = dice.randint(1, 3)
    ledger, alive, held, used = Ledger(shards, epochs), set(shards), [], []
    for _ in range(dice.randint(0, 60)):
        match dice.choice(["lease", "lease", "finish", "finish", "release", "die", "return", "save"]):
            case "lease":
                lease = ledger.lease(dice.choice(sorted(alive)), dice.randint(1, 12))
                held += [lease] if lease else []
            case "finish" if held:
                lease = held.pop(dice.randrange(len(held)))
                if ledger.holds(lease):
                    used += lease.spans
                ledger.finish(lease)
            case "release" if held:
                ledger.release(held.pop(dice.randrange(len(held))))
            case "die" if len(alive) > 1:
                gone = dice.choice(sorted(alive))
                alive.discard(gone)
                ledger.release_all(gone)
                ledger.hand_over(gone, {name: dice.uniform(0.1, 5.0) for name in alive})
            case "return":
                alive = set(shards)
                ledger.rebalance({name: dice.uniform(0.1, 5.0) for name in alive})
            case "save":
                held.clear()  # a restart forgets what was leased
                ledger = Ledger.restore(ledger.state(), after=ledger)
    while any(ledger.open(name) for name in alive) or held:
        for lease in held:
            if ledger.holds(lease):
                used += lease.spans
            ledger.finish(lease)
        held = [lease for name in sorted(alive) if (lease := ledger.lease(name, 7))]
    assert ledger.left == 0
    assert prove(shards, used, epochs) == []


def test_many_crashes_and_returns_keep_the_work_spread() -> None:
    """Rounding must not pile up on one worker, nor cut the work into crumbs."""
    ledger = Ledger({f"w-{i}": 200 for i in range(6)}, epochs=20)
    for _ in range(8):
        got = ledger.rebalance({f"w-{i}": 200.0 for i in range(6)})
    assert set(got.values()) == {4000}
    assert sum(len(spans) for spans in ledger._todo.values()) < 300


@pytest.mark.parametrize(
    ("used", "complaint"),
    [
        ([Span(0, "a", 0, 5)], "positions 5-8 never used"),
        ([Span(0, "a", 0, 5), Span(0, "a", 4, 8)], "positions 4-5 used twice"),
        ([Span(0, "a", 0, 3), Span(0, "a", 4, 8)], "positions 3-4 never used"),
        ([Span(0, "a", 0, 8), Span(0, "b", 0, 1)], "no such work was planned"),
    ],
)
def test_the_proof_finds_what_is_wrong(used: list[Span], complaint: str) -> None:
    assert any(complaint in line for line in prove({"a": 8}, used, epochs=1))
