"""What one device alone needs: plain SGD with the task's recipe, until the target is reached.

This is the yardstick of ``goodput_efficiency``; it counts samples, not seconds, so it needs no continuum.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator

from littoral.learning.leases import Span
from littoral.learning.task import Task


def samples_to_target(
    task: Task, target: float, seed: int, *, evaluate_every: float, epochs: int, consecutive: int
) -> int | None:
    """Samples until the median of ``consecutive`` evaluations passes ``target``; None if ``epochs`` are not enough."""
    import torch

    from littoral.learning.learner import Learner, Shards, named_seed

    torch.set_num_threads(1)
    dataset = task.data()
    count = len(dataset.train_x)
    learner = Learner(task, Shards(dataset, {"all": range(count)}, seed), named_seed(seed, "model") % 2**63)
    recent: deque[float] = deque(maxlen=consecutive)
    used, judged_at = 0, 0
    for span in _batches(epochs, count, task.recipe.batch):
        gradient, _ = learner.gradient([span])
        learner.step(gradient, len(span))
        used += len(span)
        if used - judged_at >= evaluate_every * count:
            judged_at = used
            recent.append(learner.replica.evaluate(dataset, task).accuracy)
            if len(recent) == consecutive and statistics.median(recent) >= target:
                return used
    return None


def _batches(epochs: int, count: int, batch: int) -> Iterator[Span]:
    for epoch in range(epochs):
        for start in range(0, count, batch):
            yield Span(epoch, "all", start, min(start + batch, count))
