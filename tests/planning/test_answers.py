"""Answers that are given once."""

from __future__ import annotations

import numpy as np
import pytest

from littoral.planning.answers import Answers, whole
from littoral.planning.instance import Floats, Ints

NODES = np.array([3, 5, 8])


class Asked:
    """Answers with ``100 node + batch`` and remembers what it was asked for."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, nodes: Ints, batches: Ints) -> Floats:
        self.batches.append(sorted(set(batches.tolist())))
        return 100.0 * nodes + batches


def test_each_batch_is_asked_about_once_and_for_everybody() -> None:
    asked = Asked()
    answers = Answers(NODES, asked)
    assert answers.of(np.array([0, 2]), np.array([4, 1])).tolist() == [304, 801]
    assert answers.of(np.array([1, 1, 0]), np.array([4, 1, 4])).tolist() == [504, 501, 304]
    assert answers.of(np.array([2, 0]), np.array([4, 64])).tolist() == [804, 364]
    assert answers.of(np.array([2]), np.array([16])).tolist() == [816]
    assert asked.batches == [[1, 4], [64], [16]]
    assert answers.of(np.array([], np.int64), np.array([], np.int64)).shape == (0,)


def test_answers_may_have_several_numbers() -> None:
    answers = Answers(NODES, lambda nodes, batches: np.stack([nodes, batches], axis=1).astype(float))
    assert answers.of(np.array([1, 0]), np.array([2, 7])).tolist() == [[5, 2], [3, 7]]


@pytest.mark.parametrize(("batches", "are"), [([1.0, 4.0], [1, 4]), ([1.5, 4.0], None), ([2, 3], [2, 3])])
def test_batches_that_are_whole(batches: list[float], are: list[int] | None) -> None:
    found = whole(np.array(batches))
    assert (None if found is None else found.tolist()) == are
