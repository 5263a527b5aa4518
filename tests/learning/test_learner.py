"""Holders: a part of the vector with its optimiser; learners: a whole one that computes gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from littoral.learning.learner import Holder, Learner
from littoral.learning.task import Recipe, load_task


def test_a_mere_vector_is_a_fresh_beginning_and_steps_warm_up_again() -> None:
    recipe = Recipe(lr=1.0, batch=10, warmup=10)
    one, other = (Holder(torch.zeros(1), recipe, 1) for _ in range(2))
    for _ in range(20):
        one.step(torch.ones(1), 20)
    assert one.vector.item() == pytest.approx(-sum(1 + min(1.0, 20 * k / 100) for k in range(20)))
    other.restore(one.state())
    for holder in (one, other):
        holder.vector.zero_()
        holder.step(torch.ones(1), 20)
    assert one.vector.item() == other.vector.item() == -2.0
    other.restore({"vector": torch.zeros(1)})
    other.step(torch.ones(1), 20)
    assert other.vector.item() == -1.0


@pytest.mark.parametrize("model", ["mlp", "resnet8"])
def test_a_snapshot_may_be_read_while_a_gradient_is_computed(model: str) -> None:
    """Batch norms write their statistics into the model's own vector until the gradient is there."""
    task = load_task("littoral.tasks.synthetic", {"samples": 8, "test_samples": 8, "model": model, "width": 0.25})
    data = task.data()

    class Everything:
        def batch(self, spans: Any) -> Any:
            return data.train_x, data.train_y

    learner = Learner(task, Everything(), seed=0)
    sent, kept = learner.snapshot(), learner.vector.clone()
    during = []
    forward, learner.replica.model.forward = learner.replica.model.forward, lambda x: look(x)

    def look(x: Any) -> Any:
        result = forward(x)
        during.append(sent.clone())
        return result

    learner.gradient([])
    assert torch.equal(during[0], kept)
