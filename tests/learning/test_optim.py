"""On a flat vector, whole or sliced, the numbers are those of torch's own optimisers."""

from __future__ import annotations

import pytest
import torch

from littoral.errors import InputError
from littoral.learning.optim import make_optimizer
from littoral.learning.task import Recipe

RECIPES = [
    Recipe(lr=0.1),
    Recipe(lr=0.1, weight_decay=0.01),
    Recipe(lr=0.05, momentum=0.9),
    Recipe(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.001),
    Recipe(optimizer="adamw", lr=0.01, weight_decay=0.05),
]
TRAINED, LENGTH, STEPS = 20, 26, 6


def reference(recipe: Recipe, parameter: torch.nn.Parameter) -> torch.optim.Optimizer:
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW([parameter], lr=recipe.lr, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(
        [parameter],
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
    )


def gradients() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(LENGTH, generator=generator) for _ in range(STEPS)]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_equal_to_torch(recipe: Recipe, scale: float) -> None:
    vector = torch.linspace(-1, 1, LENGTH)
    parameter = torch.nn.Parameter(vector[:TRAINED].clone())
    theirs, ours = reference(recipe, parameter), make_optimizer(recipe, LENGTH, TRAINED)
    theirs.param_groups[0]["lr"] *= scale
    tail = vector[TRAINED:].clone()
    for gradient in gradients():
        kept = gradient.clone()
        parameter.grad = gradient[:TRAINED].clone()
        theirs.step()
        ours.step(vector, gradient, scale)
        tail -= gradient[TRAINED:]
        assert torch.equal(kept, gradient), "a gradient is only read: others may still be sending it"
    assert torch.allclose(vector[:TRAINED], parameter.detach(), atol=1e-6, rtol=0)
    assert torch.allclose(vector[TRAINED:], tail, atol=1e-6), "the tail moves at rate one"


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_slices_do_what_the_whole_does(recipe: Recipe) -> None:
    cuts = [(0, 9), (9, 23), (23, LENGTH)]  # all trained, the boundary, none trained
    whole = torch.linspace(-1, 1, LENGTH)
    parts = [whole[start:stop].clone() for start, stop in cuts]
    single = make_optimizer(recipe, LENGTH, TRAINED)
    servers = [make_optimizer(recipe, stop - start, TRAINED - start) for start, stop in cuts]
    for gradient in gradients():
        single.step(whole, gradient)
        for server, part, (start, stop) in zip(servers, parts, cuts, strict=True):
            server.step(part, gradient[start:stop])
    assert torch.allclose(torch.cat(parts), whole, atol=1e-7)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_restored_state_continues_the_same_way(recipe: Recipe) -> None:
    one, two = torch.zeros(LENGTH), torch.zeros(LENGTH)
    first, second = (make_optimizer(recipe, LENGTH, TRAINED) for _ in range(2))
    for gradient in gradients():
        first.step(one, gradient)
    two.copy_(one)
    second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
    for gradient in gradients():
        first.step(one, gradient)
        second.step(two, gradient)
    assert torch.equal(one, two)


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(InputError, match="velocity"):
        make_optimizer(RECIPES[2], LENGTH, TRAINED).load_state({"mean": torch.zeros(TRAINED)})
    with pytest.raises(InputError):
        make_optimizer(RECIPES[2], LENGTH, TRAINED).load_state({"velocity": torch.zeros(3)})
