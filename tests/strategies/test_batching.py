"""Weighted dynamic batching: the global batch over iterations, measured speeds, and shares that end together."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from littoral.strategies.batching import Division, Growth, Pace, Power, shares

powers = st.builds(Power, st.floats(1e-4, 0.1), st.floats(0.0, 2.0), st.integers(1, 5000))


@given(each=st.lists(powers, min_size=1, max_size=8), total=st.integers(1, 4000))
def test_shares_sum_to_the_global_batch_and_end_together(each: list[Power], total: int) -> None:
    """Invariants 1 and 2: exact sum, nobody without a sample, and equal times wherever no limit binds."""
    named = {f"w-{i}": power for i, power in enumerate(each)}
    batches = shares(named, total)
    assert sum(batches.values()) == min(max(total, len(each)), sum(power.most for power in each))
    assert all(1 <= batches[name] <= power.most for name, power in named.items())
    free = [(named[name], batch) for name, batch in batches.items() if 1 < batch < named[name].most]
    for one, mine in free:
        for other, theirs in free:
            apart = abs(one.seconds(mine) - other.seconds(theirs))
            assert apart <= one.per_sample + other.per_sample + 1e-6


@given(power=powers, count=st.integers(1, 9), total=st.integers(1, 4000))
def test_equal_workers_get_equal_shares(power: Power, count: int, total: int) -> None:
    """Invariant 1: within one sample."""
    batches = shares({f"w-{i}": power for i in range(count)}, total).values()
    assert max(batches) - min(batches) <= 1


@given(
    start=st.integers(1, 500), samples=st.integers(0, 10**6), step=st.integers(1, 200), factor=st.floats(1.0, 3.0),
    period=st.integers(1, 30),
)  # fmt: skip
def test_the_global_batch_grows_slowly_then_quickly_then_stays(
    start: int, samples: int, step: int, factor: float, period: int
) -> None:
    """Invariant 3: never smaller, additive below 1 % of the data, multiplicative to 10 %, never above."""
    growth = Growth(start=start, samples=samples, step=step, factor=factor, period=period)
    most = max(start, samples // 10)
    assert growth.at(0) == start and growth.at(period - 1) == start
    for iteration in range(0, 60 * period, period):
        before, after = growth.at(iteration), growth.at(iteration + period)
        assert growth.at(iteration + period - 1) == before
        assert before <= after <= most
        if before < 0.01 * samples:
            assert after == min(before + step, most)
        elif after < most:
            assert before * factor - 2 * factor <= after <= (before + 1) * factor + 1  # of what was cut to a whole
    if factor > 1.01:
        assert growth.at(10**9) == most


@given(
    each=st.floats(1e-4, 0.1), fixed=st.floats(0.0, 3.0), batches=st.lists(st.integers(1, 400), min_size=2, max_size=6)
)
def test_a_pace_finds_the_line_it_was_given(each: float, fixed: float, batches: list[int]) -> None:
    pace = Pace(batch=batches[0], seconds=9.9)  # the plan was wrong
    for _ in range(60):
        for batch in batches:
            pace.update(batch, fixed + each * batch)
    found = pace.get()
    for batch in batches:  # the sizes it has seen are all that it can know
        assert abs(found.seconds(batch) - (fixed + each * batch)) <= 0.1 * (fixed + each * batch)
    assert found.per_sample > 0 and found.fixed >= 0


def test_a_pace_follows_a_device_that_becomes_slow() -> None:
    pace, dice = Pace(batch=32, seconds=0.32), random.Random(1)
    for second in (0.01, 0.05):
        for _ in range(60):
            pace.update(32, 32 * second * dice.lognormvariate(0.0, 0.1))
        assert 0.85 * second < pace.get().seconds(32) / 32 < 1.15 * second


def test_two_rebalances_suffice_for_costs_that_one_size_cannot_tell() -> None:
    """The first size says nothing of the fixed part; the second does, and then everyone ends together."""
    truth = {"a": Power(0.01, 0.5, 999), "b": Power(0.02, 0.0, 999), "c": Power(0.005, 1.0, 999)}
    batches = dict.fromkeys(truth, 60)
    paces = {name: Pace(batch=60, seconds=1.0) for name in truth}
    for _ in range(3):
        for name, pace in paces.items():
            for _ in range(30):
                pace.update(batches[name], truth[name].seconds(batches[name]))
            pace.most = 999
        batches = shares({name: pace.get() for name, pace in paces.items()}, 180)
    times = [truth[name].seconds(batch) for name, batch in batches.items()]
    assert max(times) - min(times) < 0.1


@given(data=st.data())
def test_who_hears_the_same_divides_alike(data: Any) -> None:
    """Invariant 9 where words arrive in time: order does not matter, nor do words for later divisions."""
    names = ["w-1", "w-2", "w-3"]
    growth = Growth(start=60, samples=5000, step=10, factor=2.0, period=4)
    words = [(name, number, data.draw(powers)) for name in names for number in (1, 2)]
    early = [(name, 3, data.draw(powers)) for name in names]

    def divided(heard: list[tuple[str, int, Power]]) -> dict[str, int]:
        division = Division(growth, dict.fromkeys(names, 20), dict.fromkeys(names, Power(0.01, 0.0, 9999)))
        for name, number, power in heard:
            division.hear(name, number, power)
        division.divide(8)
        return division.batches

    shuffled = data.draw(st.permutations(words + early))
    assert divided(words) == divided(shuffled)
    division = Division(growth, dict.fromkeys(names, 20), dict.fromkeys(names, Power(0.01, 0.0, 9999)))
    division.divide(8)
    assert division.total == growth.at(8)
