"""Optimisers on a flat vector, numerically those of torch; a parameter server runs one on its slice.

The first ``trained`` elements learn; the rest are carried statistics, moved by the gradient's tail at
rate one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from littoral.errors import InputError
from littoral.learning.task import Recipe

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # as in torch.optim.AdamW


class Optimizer(Protocol):
    """Moves a vector against a gradient and remembers what it needs to."""

    def step(self, vector: Tensor, gradient: Tensor, scale: float = 1.0) -> None:
        """Change ``vector`` in place; ``scale`` multiplies the learning rate. ``gradient`` is only read."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The live memory, by name; copy it before the next step if it must not change."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Copy back what :meth:`state` gave."""
        ...


class Sgd:
    """Stochastic gradient descent, with optional (Nesterov) momentum and weight decay."""

    def __init__(self, recipe: Recipe, trained: int) -> None:
        self._recipe, self._trained = recipe, trained
        self._velocity = torch.zeros(trained) if recipe.momentum else None

    def step(self, vector: Tensor, gradient: Tensor, scale: float = 1.0) -> None:
        recipe = self._recipe
        weights, slope = _split(vector, gradient, self._trained)
        if recipe.weight_decay:
            slope = slope.add(weights, alpha=recipe.weight_decay)
        if self._velocity is not None:
            self._velocity.mul_(recipe.momentum).add_(slope)
            slope = slope.add(self._velocity, alpha=recipe.momentum) if recipe.nesterov else self._velocity
        weights.add_(slope, alpha=-recipe.lr * scale)

    def state(self) -> dict[str, Tensor]:
        return {} if self._velocity is None else {"velocity": self._velocity}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        _restore(self.state(), state)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def __init__(self, recipe: Recipe, trained: int) -> None:
        self._recipe, self._trained = recipe, trained
        self._mean, self._square = torch.zeros(trained), torch.zeros(trained)
        self._steps = torch.zeros(1)

    def step(self, vector: Tensor, gradient: Tensor, scale: float = 1.0) -> None:
        lr = self._recipe.lr * scale
        weights, slope = _split(vector, gradient, self._trained)
        self._steps += 1
        steps = self._steps.item()
        self._mean.lerp_(slope, 1 - _BETA1)
        self._square.mul_(_BETA2).addcmul_(slope, slope, value=1 - _BETA2)
        spread = (self._square.sqrt() / math.sqrt(1 - _BETA2**steps)).add_(_EPSILON)
        weights.mul_(1 - lr * self._recipe.weight_decay)
        weights.addcdiv_(self._mean, spread, value=-lr / (1 - _BETA1**steps))

    def state(self) -> dict[str, Tensor]:
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        _restore(self.state(), state)


def make_optimizer(recipe: Recipe, length: int, trained: int) -> Optimizer:
    """The recipe's optimiser for a vector, or slice, of ``length`` elements.

    For the slice that begins at element ``start``, ``trained`` is the whole vector's count minus ``start``;
    it may fall outside the slice on either side.
    """
    within = min(max(trained, 0), length)
    return Sgd(recipe, within) if recipe.optimizer == "sgd" else AdamW(recipe, within)


def _split(vector: Tensor, gradient: Tensor, trained: int) -> tuple[Tensor, Tensor]:
    """Move the carried tail; return the elements that learn, and their gradient."""
    if len(vector) == trained:
        return vector, gradient
    vector[trained:].sub_(gradient[trained:])
    return vector[:trained], gradient[:trained]


def _restore(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in saved.items()}:
        raise InputError(
            f"an optimiser state of {sorted(saved)}, where {sorted(own)} was expected",
            remedy="restore it with the recipe and slice it was saved with",
        )
    for name, tensor in own.items():
        tensor.copy_(saved[name])
