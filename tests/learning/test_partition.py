"""Whatever the split: every sample once, every size met, the same seed the same shards."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.learning.partition import Group, _whole, partition


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    labels = draw(st.lists(st.integers(0, 6), min_size=0, max_size=80))
    cuts = sorted(draw(st.lists(st.integers(0, len(labels)), max_size=6)))
    return labels, [b - a for a, b in pairwise([0, *cuts, len(labels)])]


@given(
    problems(),
    st.sampled_from(["iid", "dirichlet"]),
    st.integers(0, 2**32),
    st.sampled_from([1e-3, 0.1, 1.0, 1e3]),
)
def test_an_exact_and_repeatable_partition(
    problem: tuple[list[int], list[int]], split: Literal["iid", "dirichlet"], seed: int, alpha: float
) -> None:
    labels, sizes = problem
    shards = partition(labels, sizes, split, seed, alpha)
    assert [len(shard) for shard in shards] == sizes
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(labels)))
    again = partition(labels, sizes, split, seed, alpha)
    assert all(np.array_equal(a, b) for a, b in zip(shards, again, strict=True))


@given(problems(), problems(), st.integers(0, 2**32))
def test_by_store_never_crosses_stores(
    here: tuple[list[int], list[int]], there: tuple[list[int], list[int]], seed: int
) -> None:
    (labels, sizes), (more, others) = here, there
    n, w = len(labels), len(sizes)
    groups = [
        Group(samples=range(n, n + len(more)), workers=range(w, w + len(others))),
        Group(samples=range(n), workers=range(w)),
    ]
    shards = partition(labels + more, sizes + others, "by-store", seed, groups=groups)
    assert [len(shard) for shard in shards] == sizes + others
    assert sorted(np.concatenate(shards[: len(sizes)]).tolist()) == list(range(len(labels)))
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(labels) + len(more)))


def skew(alpha: float) -> float:
    """Mean distance of a worker's class mixture from the whole set's, over a few seeds."""
    labels = np.arange(2000) % 10
    sizes = [700, 500, 400, 250, 150]
    distances = []
    for seed in range(5):
        for shard in partition(labels, sizes, "dirichlet", seed, alpha):
            mixture = np.bincount(labels[shard], minlength=10) / len(shard)
            distances.append(np.abs(mixture - 0.1).sum() / 2)
    return float(np.mean(distances))


def test_a_smaller_alpha_is_more_skewed() -> None:
    low, middle, high = skew(0.05), skew(0.5), skew(100.0)
    assert low > middle + 0.1 > high + 0.2
    assert low > 0.6 and high < 0.1


def test_rounding_keeps_both_sums_even_of_a_table_that_does_not_fit() -> None:
    sizes, available = np.array([1, 6, 1]), np.array([4, 4])
    counts = _whole(np.array([[1.0, 0.0], [6.0, 0.0], [0.5, 0.5]]), sizes, available)
    assert counts.min() >= 0
    assert counts.sum(axis=1).tolist() == [1, 6, 1] and counts.sum(axis=0).tolist() == [4, 4]


def test_shards_are_shuffled() -> None:
    labels = np.repeat([0, 1], 50)
    for split in ("iid", "dirichlet"):
        shard = partition(labels, [100], split, 0)[0]
        assert np.count_nonzero(np.diff(labels[shard])) > 10


def test_another_seed_is_another_partition() -> None:
    one, two = (partition([0] * 50, [25, 25], "iid", seed)[0] for seed in (1, 2))
    assert not np.array_equal(one, two)


HALVES = [Group(samples=[0, 1], workers=[0]), Group(samples=[2, 3], workers=[1])]


@pytest.mark.parametrize(
    ("sizes", "split", "groups", "message"),
    [
        ([3], "iid", None, "shards of 3 samples"),
        ([5, -1], "iid", None, "non-negative"),
        ([2, 2], "by-class", None, "unknown split"),
        ([2, 2], "by-store", None, "reads no store"),
        ([2, 2], "by-store", [Group(samples=range(3), workers=[0, 1])], "lies in no store"),
        ([1, 3], "by-store", HALVES, "store 0 holds 2 samples, its workers want 1"),
    ],
)
def test_what_does_not_add_up_is_refused(sizes: list[int], split: str, groups: list[Group], message: str) -> None:
    with pytest.raises(InputError, match=message):
        partition([0] * 4, sizes, split, 0, groups=groups)  # type: ignore[arg-type]


def test_alpha_must_be_positive() -> None:
    with pytest.raises(InputError, match="alpha is 0"):
        partition([0, 1], [1, 1], "dirichlet", 0, alpha=0)
