"""Which sample goes to which worker: an exact partition of the training set, with sizes given by the plan.

``iid`` cuts one permutation; ``dirichlet`` gives each worker its own mixture of classes (Hsu et al. 2019);
``by-store`` lets each worker draw only from the samples that lie in its store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from littoral.errors import InputError

Split = Literal["iid", "dirichlet", "by-store"]
Indices: TypeAlias = NDArray[np.int64]
_FITTING_ROUNDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One store: the samples that lie there, and the workers (positions in ``sizes``) that read it.

    ``samples`` may be a range, or ``np.flatnonzero(np.isin(labels, classes))`` for a store of some classes.
    """

    samples: Sequence[int] | Indices
    workers: Sequence[int]


def partition(
    labels: ArrayLike,
    sizes: Sequence[int],
    split: Split,
    rng_seed: int,
    alpha: float = 0.5,
    groups: Sequence[Group] | None = None,
) -> list[Indices]:
    """One array of sample numbers per worker, shuffled; worker ``i`` gets exactly ``sizes[i]`` of them.

    The smaller ``alpha``, the fewer classes a worker sees (``dirichlet`` only). ``groups`` is for
    ``by-store`` only: together they name every sample and every worker once, and each holds just what its
    workers take.

    >>> [len(part) for part in partition([0, 1] * 5, [7, 3], "iid", rng_seed=0)]
    [7, 3]
    """
    marks = np.asarray(labels)
    if sum(sizes) != len(marks) or min(sizes, default=0) < 0:
        raise InputError(
            f"shards of {sum(sizes)} samples in all, for a training set of {len(marks)}",
            remedy="the sizes must be non-negative and add up",
        )
    rng = np.random.default_rng(rng_seed)
    match split:
        case "iid":
            return _cut(rng.permutation(len(marks)), sizes)
        case "dirichlet":
            return _by_mixture(marks, sizes, alpha, rng)
        case "by-store":
            return _by_store(len(marks), sizes, groups or (), rng)
        case _:
            raise InputError(f"unknown split {split!r}", remedy="use iid, dirichlet or by-store")


def _cut(order: Indices, sizes: Sequence[int] | Indices) -> list[Indices]:
    return np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _by_store(n: int, sizes: Sequence[int], groups: Sequence[Group], rng: np.random.Generator) -> list[Indices]:
    if sorted(w for group in groups for w in group.workers) != list(range(len(sizes))):
        raise InputError("some worker reads no store, or two", remedy="name each worker in one group")
    stored = np.concatenate([np.asarray(group.samples, dtype=np.int64) for group in groups] or [np.arange(0)])
    if not np.array_equal(np.sort(stored), np.arange(n)):
        raise InputError("some sample lies in no store, or in two", remedy="name each sample in one group")
    shards: dict[int, Indices] = {}
    for number, group in enumerate(groups):
        wanted = [sizes[worker] for worker in group.workers]
        if sum(wanted) != len(group.samples):
            raise InputError(
                f"store {number} holds {len(group.samples)} samples, its workers want {sum(wanted)}",
                remedy="make the shards of a store's workers add up to what it holds",
            )
        order = rng.permutation(np.asarray(group.samples, dtype=np.int64))
        shards |= dict(zip(group.workers, _cut(order, wanted), strict=True))
    return [shards[worker] for worker in range(len(sizes))]


def _by_mixture(labels: NDArray[Any], sizes: Sequence[int], alpha: float, rng: np.random.Generator) -> list[Indices]:
    if not alpha > 0:
        raise InputError(f"alpha is {alpha}", remedy="give a positive number; a large one approaches iid")
    classes, available = np.unique(labels, return_counts=True)
    mixtures = rng.dirichlet(np.full(len(classes), alpha), size=len(sizes)) + 1e-9  # no class is impossible
    counts = _whole(_fit(mixtures, np.asarray(sizes), available), np.asarray(sizes), available)
    members = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
    by_class = [_cut(order, taken) for order, taken in zip(members, counts.T, strict=True)]
    shards = [[cuts[worker] for cuts in by_class] for worker in range(len(sizes))]
    return [rng.permutation(np.concatenate([np.arange(0), *shard])) for shard in shards]


def _fit(mixtures: NDArray[np.float64], sizes: Indices, available: Indices) -> NDArray[np.float64]:
    """Scale rows and columns in turn (Sinkhorn) until shards and classes have about their given sizes.

    Dealing worker by worker instead would leave the last ones with whatever the first did not want.
    """
    table = mixtures
    for _ in range(_FITTING_ROUNDS):
        table = table * (available / table.sum(axis=0))
        table = table * (sizes / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table = np.maximum(table, 1e-300)
    return table


def _whole(table: NDArray[np.float64], sizes: Indices, available: Indices) -> Indices:
    """Whole numbers near ``table`` whose rows sum to ``sizes`` and columns to ``available``, exactly."""
    left = available.copy()
    counts = np.zeros(table.shape, dtype=np.int64)
    for worker, row in enumerate(table):
        counts[worker] = np.minimum(np.floor(row), left)
        left -= counts[worker]
    for worker, row in enumerate(table):
        for c in np.argsort(counts[worker] - row):  # the class rounded down the most comes first
            extra = min(sizes[worker] - counts[worker].sum(), left[c])
            counts[worker, c] += extra
            left[c] -= extra
    return counts
