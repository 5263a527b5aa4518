"""A node's model with its optimiser and its way to the data: what stands behind ``node.model`` in real runs.

The learning rate follows the batch: a step over ``samples`` samples moves ``samples / recipe.batch`` times as far as
the recipe says (linear scaling, Goyal et al. 2017; square root for AdamW), so that a plan may change batches without
changing what an epoch learns. Beyond ``LINEAR_LIMIT`` the factor grows with the square root only. The first steps of
a fresh model are the recipe's own, and grow from there (Goyal's warm-up): full steps would throw some models so far
that they never learn.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from littoral.learning.leases import Span
from littoral.learning.optim import Optimizer, make_optimizer
from littoral.learning.replica import Replica, Twin
from littoral.learning.task import Dataset, Recipe, Task

LINEAR_LIMIT = 4.0


def step_scale(recipe: Recipe, samples: float, seen: float = math.inf) -> float:
    """How much further than the recipe's step to go for a batch of ``samples``, after ``seen`` samples.

    >>> recipe = Recipe(lr=0.1, batch=32, warmup=100)
    >>> step_scale(recipe, 128), step_scale(recipe, 128, seen=0), step_scale(recipe, 128, seen=1600)
    (4.0, 1.0, 2.5)
    """
    ratio = samples / recipe.batch
    if recipe.optimizer == "adamw":
        full = math.sqrt(ratio)
    else:
        full = ratio if ratio <= LINEAR_LIMIT else math.sqrt(ratio * LINEAR_LIMIT)
    warm = recipe.warmup * recipe.batch
    return full if full <= 1 or seen >= warm else 1 + (full - 1) * seen / warm


class Batches(Protocol):
    """Where a learner gets its samples: the data set itself, or what was fetched of it."""

    def batch(self, spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some spans."""
        ...


class Orders:
    """What a span means: each shard's order in an epoch is a seeded shuffle of its own, the same on every machine."""

    def __init__(self, sizes: Mapping[str, int], seed: int) -> None:
        self._sizes, self._seed = sizes, seed
        self._orders: dict[tuple[int, str], Tensor] = {}

    def positions(self, span: Span) -> Tensor:
        """Where the span's samples lie in its shard."""
        return self._order(span.epoch, span.origin)[span.start : span.stop]

    def _order(self, epoch: int, origin: str) -> Tensor:
        key = (epoch, origin)
        order = self._orders.get(key)
        if order is None:
            if len(self._orders) > 4 * len(self._sizes):  # orders of epochs gone by
                self._orders.clear()
            rng = np.random.default_rng(named_seed(self._seed, f"order/{epoch}/{origin}"))
            order = self._orders[key] = torch.from_numpy(rng.permutation(self._sizes[origin]))
        return order


class Shards:
    """The samples of every shard, taken from the data set."""

    def __init__(self, dataset: Dataset, indices: Mapping[str, Any], seed: int) -> None:
        self._dataset = dataset
        self._indices = {name: torch.from_numpy(np.array(index, dtype=np.int64)) for name, index in indices.items()}
        self._orders = Orders({name: len(index) for name, index in indices.items()}, seed)

    def batch(self, spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some spans."""
        parts = [self._indices[span.origin][self._orders.positions(span)] for span in spans]
        index = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self._dataset.train_x.index_select(0, index), self._dataset.train_y.index_select(0, index)


def named_seed(seed: int, name: str) -> int:
    """A seed for one purpose, the same on every machine.

    >>> named_seed(0, "noise") == named_seed(0, "noise") != named_seed(1, "noise")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big")


class Holder:
    """Part of the vector with its optimiser: what a server keeps."""

    def __init__(self, vector: Tensor, recipe: Recipe, trained: int) -> None:
        self.vector = vector
        self._shared = False  # whether somebody else reads this very vector
        self._recipe, self._trained = recipe, trained
        self._seen = 0.0  # samples whose gradients are in the vector
        self._optimizer: Optimizer | None = None  # a worker that only pushes gradients never needs one

    @property
    def trained(self) -> int:
        """How many of its elements learn; those behind them are carried statistics."""
        return min(max(self._trained, 0), len(self.vector))

    def load(self, vector: Tensor, start: int = 0) -> None:
        """Copy a slice in."""
        self._own()
        self.vector[start : start + len(vector)].copy_(vector)

    def snapshot(self) -> Tensor:
        """The vector as it is now; the next change is made on a copy."""
        self._shared = True
        return self.vector

    def _own(self) -> None:
        if self._shared:
            self.vector, self._shared = self.vector.clone(), False

    def mean(self, parts: Sequence[tuple[Tensor, float]]) -> Tensor:
        """The weighted mean, summed in the order given."""
        if len(parts) == 1:
            return parts[0][0]
        total = sum(weight for _, weight in parts)
        result = parts[0][0] * (parts[0][1] / total)
        for vector, weight in parts[1:]:
            result.add_(vector, alpha=weight / total)
        return result

    def step(self, gradient: Tensor, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        """One optimiser step, ``factor`` times as long as ``samples`` samples deserve; ``seen`` of them are news."""
        self._own()
        length = factor * step_scale(self._recipe, samples, self._seen)
        self._make_optimizer().step(self.vector, gradient, length)
        self._seen += samples if seen is None else seen

    def forget(self) -> None:
        """Drop momentum and the like: the next step is as a fresh optimiser's."""
        self._optimizer = None

    def state(self) -> dict[str, Tensor]:
        """Vector, samples seen and optimiser, live."""
        memory = self._optimizer.state() if self._optimizer else {}
        seen = torch.tensor([self._seen], dtype=torch.float64)
        return {"vector": self.vector, "seen": seen, **{f"optimizer.{name}": v for name, v in memory.items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy back what ``state`` gave."""
        self.load(state["vector"].clone())
        self._seen = float(state["seen"][0]) if "seen" in state else 0.0  # a mere vector is a fresh beginning
        prefix = "optimizer."
        memory = {name[len(prefix) :]: v for name, v in state.items() if name.startswith(prefix)}
        self.forget()  # what it remembers is of another model
        if memory:
            self._make_optimizer().load_state(memory)

    def _make_optimizer(self) -> Optimizer:
        if self._optimizer is None:
            self._optimizer = make_optimizer(self._recipe, len(self.vector), self._trained)
        return self._optimizer


class Learner(Holder):
    """A whole replica that can compute gradients on its node's samples."""

    def __init__(
        self, task: Task, shards: Batches, seed: int, recipe: Recipe | None = None, card: str | None = None
    ) -> None:
        self.replica = Replica(task, seed)
        self._twin = None if card is None else Twin(task, card)
        self._shards = shards
        super().__init__(self.replica.vector, recipe or task.recipe, self.replica.trained)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """Where each tensor that learns begins and ends in the vector."""
        return self.replica.segments

    def gradient(self, spans: Sequence[Span]) -> tuple[Tensor, float]:
        """The mean gradient of some samples, and their loss."""
        if self._twin is not None:
            return self._twin.gradient(self.vector, *self._shards.batch(spans))
        if self.replica.trained < len(self.vector):  # norms write into the tail meanwhile, and put it back
            self._own()
        return self.replica.gradient(*self._shards.batch(spans))

    def empty(self) -> Tensor:
        """The gradient of no samples."""
        return torch.zeros_like(self.vector)

    def load(self, vector: Tensor, start: int = 0) -> None:
        """Copy a slice in; a whole vector is taken over as it is, and copied only when it must change."""
        if len(vector) == len(self.vector):
            self.replica.adopt(vector)
            self.vector, self._shared = vector, True
        else:
            self._own()
            self.replica.load(vector, start)

    def _own(self) -> None:
        if self._shared:
            super()._own()
            self.replica.adopt(self.vector)
