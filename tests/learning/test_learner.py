"""Holders: a part of the vector with its optimiser."""

from __future__ import annotations

import pytest
import torch

from littoral.learning.learner import Holder
from littoral.learning.task import Recipe


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
