"""The torch module is what the planner counted, parameter for parameter."""

from __future__ import annotations

import pytest
import torch

from littoral.learning.architectures import ARCHITECTURES
from littoral.learning.layers import count
from littoral.learning.models import build, measure_footprint
from littoral.learning.task import Dataset

torch.set_num_threads(1)
SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 9, 13)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_count_equals_the_module(name: str, shape: tuple[int, ...]) -> None:
    spec = ARCHITECTURES[name](shape, 11, 0.5)
    module, size = build(spec, shape), count(spec, shape)
    assert sum(p.numel() for p in module.parameters()) == size.parameters
    assert sum(b.numel() for b in module.buffers() if b.is_floating_point()) == size.buffers
    assert module(torch.zeros(2, *shape)).shape == (2, 11)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_batch_of_one_trains_on_the_smallest_image(name: str) -> None:
    module = build(ARCHITECTURES[name]((1, 8, 8), 10, 0.25), (1, 8, 8)).train()
    assert module(torch.ones(1, 1, 8, 8)).isfinite().all()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_measured_and_counted_footprints_agree(name: str) -> None:
    shape = (3, 16, 16)
    spec = ARCHITECTURES[name](shape, 10, 0.5)
    module, size = build(spec, shape), count(spec, shape)
    before = [tensor.clone() for tensor in module.state_dict().values()]
    x, y = torch.rand(6, *shape), torch.arange(6)
    measured = measure_footprint(module, Dataset(train_x=x, train_y=y, test_x=x[:4], test_y=y[:4]))
    assert (measured.parameters, measured.buffers) == (size.parameters, size.buffers)
    assert measured.flops_per_sample == 3 * size.flops_forward
    assert (measured.samples, measured.test_samples, measured.classes) == (6, 4, 6)
    # Counted: outputs of layers. Measured: what autograd keeps. Both serve a memory limit only.
    assert measured.activation_bytes == pytest.approx(4 * size.activation_floats, rel=0.35, abs=4096)
    assert all(torch.equal(a, b) for a, b in zip(before, module.state_dict().values(), strict=True))
