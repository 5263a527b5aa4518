"""What a run computes: the real thing, or only its weight.

A world asks for a model per node and for a verdict on the model; whether that involves torch is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from littoral.learning.phantom import PhantomModel
from littoral.learning.task import Dataset, Footprint, Recipe, Task, require_torch
from littoral.planning.plan import Plan

if TYPE_CHECKING:
    from littoral.strategies.strategy import Source


class TimingOnly:
    """Vectors that weigh as much as the task's, and no mathematics."""

    evaluates = False

    def __init__(self, footprint: Footprint) -> None:
        self.length = footprint.parameters + footprint.buffers

    def worker(self, name: str) -> PhantomModel:
        """A worker's model."""
        return PhantomModel(self.length)

    def server(self, start: int, stop: int) -> PhantomModel:
        """A server's slice."""
        return PhantomModel(stop - start)

    def evaluate(self, parts: Sequence[tuple[Source, Any]]) -> tuple[float, float]:
        raise AssertionError("there is nothing to evaluate")


class RealMathematics:
    """Real data, real gradients, real accuracy; one thread, so that sums come out the same every time."""

    def __init__(
        self, task: Task, plan: Plan, seed: int, recipe: Recipe | None = None, *, evaluates: bool = True
    ) -> None:
        require_torch("training with real gradients")
        import torch

        from littoral.learning.learner import Shards, named_seed
        from littoral.learning.replica import Replica

        torch.set_num_threads(1)
        self.evaluates = evaluates
        self._task, self._seed = task, named_seed(seed, "model") % 2**63
        self._recipe = recipe or task.recipe
        self._dataset = task.data()
        self._shards = Shards(self._dataset, shard_indices(plan, seed, self._dataset), seed)
        self._judge = Replica(task, self._seed)
        self._initial = self._judge.vector.clone()
        self.length = len(self._judge)

    def initial(self, start: int, stop: int) -> Any:
        """A slice of the vector that training begins with."""
        return self._initial[start:stop]

    def worker(self, name: str) -> Any:
        """A worker's whole replica; all start alike."""
        from littoral.learning.learner import Learner

        return Learner(self._task, self._shards, self._seed, self._recipe)

    def server(self, start: int, stop: int) -> Any:
        """A server's slice of the initial vector."""
        from littoral.learning.learner import Holder

        return Holder(self._initial[start:stop].clone(), self._recipe, self._judge.trained - start)

    def evaluate(self, parts: Sequence[tuple[Source, Any]]) -> tuple[float, float]:
        """Accuracy and loss of the model that lies in these parts; of several for the same place, their mean."""
        places: dict[int, list[Any]] = {}
        for source, vector in parts:
            places.setdefault(source.start, []).append(vector)
        for start, vectors in places.items():
            self._judge.load(sum(vectors[1:], start=vectors[0]) / len(vectors), start)
        verdict = self._judge.evaluate(self._dataset, self._task)
        return verdict.accuracy, verdict.loss


def shard_indices(plan: Plan, seed: int, dataset: Dataset) -> dict[str, Any]:
    """Which samples of the training set each worker's shard holds, in its base order; the same on every machine."""
    from littoral.learning.learner import named_seed
    from littoral.learning.partition import partition

    split: Any = plan.split
    sizes = [worker.shard for worker in plan.workers]
    groups = _groups(plan) if split == "by-store" else None
    cuts = partition(dataset.train_y.numpy(), sizes, split, named_seed(seed, "shards"), plan.alpha, groups)
    return {worker.name: cut for worker, cut in zip(plan.workers, cuts, strict=True)}


def _groups(plan: Plan) -> list[Any]:
    """Each store holds a stretch of the data set, as long as its workers' shards together."""
    from littoral.learning.partition import Group

    groups, start = [], 0
    for store in dict.fromkeys(worker.store for worker in plan.workers):
        workers = [i for i, worker in enumerate(plan.workers) if worker.store == store]
        stop = start + sum(plan.workers[i].shard for i in workers)
        groups.append(Group(samples=range(start, stop), workers=workers))
        start = stop
    return groups
