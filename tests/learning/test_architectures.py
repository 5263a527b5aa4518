"""Counting must agree with arithmetic done by hand, and widths must span the promised range."""

from __future__ import annotations

import pytest

from littoral.errors import InputError
from littoral.learning.architectures import ARCHITECTURES
from littoral.learning.layers import (
    Branches,
    Conv,
    GlobalPool,
    Linear,
    MaxPool,
    Norm,
    Relu,
    Residual,
    Size,
    Spec,
    count,
    output_shape,
)


def test_a_convolution_by_hand() -> None:
    spec: Spec = (Conv(4, 3, stride=2, bias=True),)
    assert output_shape(spec, (2, 7, 7)) == (4, 4, 4)
    assert count(spec, (2, 7, 7)) == Size(4 * 2 * 9 + 4, 0, 2 * 72 * 16, 64)


def test_a_depthwise_convolution_has_one_filter_per_channel() -> None:
    assert count((Conv(8, 3, groups=8),), (8, 5, 5)).parameters == 8 * 9


def test_a_norm_trains_two_and_keeps_two_floats_per_channel() -> None:
    assert count((Norm(),), (5, 4, 4)) == Size(10, 10, 0, 0)


def test_branches_concatenate_and_residuals_add() -> None:
    branches = Branches(((Conv(3, 1),), (MaxPool(3, 1), Conv(2, 1))))
    spec: Spec = (branches, Residual((Conv(5), Norm()), ()), Relu(), GlobalPool(), Linear(7))
    assert output_shape(spec[:-2], (4, 6, 6)) == (5, 6, 6)
    assert output_shape(spec, (4, 6, 6)) == (7,)
    assert count(spec, (4, 6, 6)).parameters == (12 + 8) + (5 * 5 * 9 + 10) + (5 * 7 + 7)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_network_ends_in_its_classes_and_grows_with_width(name: str) -> None:
    shape = (1, 8, 8)
    narrow, wide = (ARCHITECTURES[name](shape, 10, width) for width in (0.5, 2.0))
    assert output_shape(narrow, shape) == output_shape(wide, shape) == (10,)
    assert count(wide, shape).parameters > 2 * count(narrow, shape).parameters


def test_the_range_from_ten_thousand_to_twenty_five_million() -> None:
    assert 9_000 < count(ARCHITECTURES["mlp"]((1, 8, 8), 10, 0.67), (1, 8, 8)).parameters < 11_000
    assert 20e6 < count(ARCHITECTURES["mobilenet"]((3, 32, 32), 10, 3.2), (3, 32, 32)).parameters < 26e6


def test_a_flat_sample_is_refused_by_a_network_for_images() -> None:
    with pytest.raises(InputError, match="mlp"):
        count(ARCHITECTURES["lenet"]((20,), 10), (20,))
    with pytest.raises(InputError, match="too small"):
        count(ARCHITECTURES["lenet"]((1, 2, 2), 10), (1, 2, 2))
