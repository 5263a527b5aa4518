"""One model as ONE flat float32 vector: trained parameters first, then everything that is only carried along.

The tail holds the float buffers (running mean and variance of batch norms) and frozen parameters. A norm's
statistics travel, average and are checkpointed with the vector: a gradient's tail says how far one batch
moved them (old minus new), so a step subtracts it at rate one while it subtracts ``lr`` times the rest.
Integer buffers (``num_batches_tracked``) stay outside. Dropout draws from torch's global generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from littoral.errors import InputError
from littoral.learning.task import Dataset, Task

_EVALUATION_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How a replica does on the test set; ``accuracy`` is the task's metric."""

    accuracy: float
    loss: float


class Replica:
    """A model whose parameters and float buffers are views into ``vector``.

    INVARIANT: ``vector[:trained]`` are the parameters that learn, ``vector[trained:]`` the rest; a tensor
    used twice in the model (tied) is there once.
    """

    def __init__(self, task: Task, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.model = task.model().train()
        self._task = task
        self._learning = [p for p in self.model.parameters() if p.requires_grad]
        self._carried = _carried(self.model)
        _check_types(self.model)
        self.trained = sum(p.numel() for p in self._learning)
        self.vector = torch.empty(0)
        self.adopt(torch.cat([t.detach().reshape(-1) for t in (*self._learning, *self._carried)]))

    def __len__(self) -> int:
        return len(self.vector)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """Where each tensor that learns begins and ends in the vector."""
        ends = [0, *accumulate(parameter.numel() for parameter in self._learning)]
        return tuple((start, stop) for start, stop in pairwise(ends) if stop > start)

    def gradient(self, x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        """A fresh vector of what this batch says, and its loss; the replica itself is left unchanged."""
        for parameter in self._learning:
            parameter.grad = None  # autograd then hands over its own tensor instead of adding to a zeroed one
        before = self.vector[self.trained :].clone() if self._carried else None
        loss = self._task.loss(self.model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        parts = [_flat_gradient(parameter) for parameter in self._learning]
        if before is not None:
            after = self.vector[self.trained :]
            parts.append(before - after)
            after.copy_(before)
        return torch.cat(parts), loss.item()

    def load(self, vector: Tensor, start: int = 0) -> None:
        """Copy a vector, or a slice that begins at element ``start``, into the model."""
        if not 0 <= start <= len(self.vector) - len(vector):
            raise InputError(
                f"elements {start}..{start + len(vector)} of a vector of {len(self.vector)}",
                remedy="the model and what is loaded must agree",
            )
        self.vector[start : start + len(vector)].copy_(vector)

    def adopt(self, vector: Tensor) -> None:
        """Make ``vector`` the model's memory without copying; the caller's tensor is now the live one."""
        tensors = (*self._learning, *self._carried)
        length = sum(t.numel() for t in tensors)
        if vector.shape != (length,) or vector.dtype != torch.float32 or not vector.is_contiguous():
            raise InputError(
                f"{vector.dtype} of shape {tuple(vector.shape)} for a model of {length} floats",
                remedy="give a contiguous float32 vector of that length",
            )
        for tensor, view in zip(tensors, torch.split(vector, [t.numel() for t in tensors]), strict=True):
            tensor.data = view.view(tensor.shape)
        self.vector = vector

    def evaluate(self, dataset: Dataset, task: Task) -> Evaluation:
        """Loss and metric over the whole test set, in evaluation mode."""
        self.model.eval()
        try:
            with torch.no_grad():
                output = torch.cat([self.model(x) for x in torch.split(dataset.test_x, _EVALUATION_BATCH)])
                loss = task.loss(output, dataset.test_y).item()
        finally:
            self.model.train()
        return Evaluation(accuracy=task.metric(output, dataset.test_y), loss=loss)


class Twin:
    """Another replica on a graphics card, where gradients are computed; the vector itself stays in main memory."""

    def __init__(self, task: Task, card: str) -> None:
        self._card = torch.device(card)
        self._replica = Replica(task, 0)
        self._replica.adopt(self._replica.vector.to(self._card))  # first: moving a model replaces its buffers
        self._replica.model.to(self._card)  # the rest: buffers of whole numbers

    def gradient(self, vector: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        """What this batch says of a model in main memory."""
        self._replica.load(vector)
        gradient, loss = self._replica.gradient(x.to(self._card), y.to(self._card))
        return gradient.cpu(), loss


def _flat_gradient(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad
    return parameter.new_zeros(parameter.numel()) if gradient is None else gradient.reshape(-1)


def _carried(model: nn.Module) -> list[Tensor]:
    frozen = [p for p in model.parameters() if not p.requires_grad]
    return [*frozen, *(b for b in model.buffers() if b.is_floating_point())]


def _check_types(model: nn.Module) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise InputError(f"the model's {name} is {tensor.dtype}", remedy="make the model float32")
