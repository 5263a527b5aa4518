"""Torch modules from specs, and the footprint of a torch module that came from elsewhere."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, UntypedStorage, nn

from littoral.learning.layers import (
    Branches,
    Conv,
    Flatten,
    GlobalPool,
    Layer,
    Linear,
    MaxPool,
    Norm,
    Relu,
    Residual,
    Shape,
    Spec,
    output_shape,
    padding,
)
from littoral.learning.task import Dataset, Footprint


def build(spec: Spec, shape: Shape) -> nn.Module:
    """The module for a batch of samples of this shape; its initial weights come from torch's generator."""
    modules: list[nn.Module] = []
    for layer in spec:
        modules.append(_module(layer, shape))
        shape = output_shape((layer,), shape)
    return nn.Sequential(*modules)


def _module(layer: Layer, shape: Shape) -> nn.Module:
    match layer:
        case Conv(out=out, kernel=kernel, stride=stride, groups=groups, bias=bias):
            return _started(nn.Conv2d(shape[0], out, kernel, stride, padding(kernel), groups=groups, bias=bias))
        case Norm():
            return nn.BatchNorm2d(shape[0])
        case Relu():
            return nn.ReLU()
        case MaxPool(size=size, stride=stride):
            return nn.MaxPool2d(size, stride, padding(size))
        case GlobalPool():
            return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        case Flatten():
            return nn.Flatten()
        case Linear(out=out):
            return _started(nn.Linear(shape[0], out))
        case Residual(body=body, shortcut=shortcut):
            return Sum(build(body, shape), build(shortcut, shape))
        case Branches(bodies=bodies):
            return Concatenation([build(body, shape) for body in bodies])


def _started(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """He et al. 2015: torch's default shrinks the signal at each rectifier, and LeNet idles for epochs."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Sum(nn.Module):
    """``body(x) + shortcut(x)``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x) + self.shortcut(x)
        return result


class Concatenation(nn.Module):
    """The outputs of every body, side by side on the channels."""

    def __init__(self, bodies: list[nn.Module]) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(bodies)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([body(x) for body in self.bodies], dim=1)


def measure_footprint(model: nn.Module, dataset: Dataset) -> Footprint:
    """The footprint of any model, from one forward pass over two samples; the model is left as it was.

    FLOPs are those of linear and convolution layers; a model made of other things should state its own.
    Frozen parameters count as buffers, as they do in a replica.
    """
    x, y = dataset.train_x, dataset.train_y
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    floats = sum(t.numel() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point())
    batch = x[:2].clone()  # a slice would hold, and so weigh, the storage of the whole data set
    flops, activation_bytes = _trace(copy.deepcopy(model).train(), batch)
    return Footprint(
        samples=len(x),
        test_samples=len(dataset.test_x),
        classes=1 if y.is_floating_point() else int(y.max()) + 1,
        parameters=trained,
        buffers=floats - trained,
        flops_per_sample=3 * flops // len(batch),
        sample_bytes=x[0].nbytes + y[0].nbytes,
        activation_bytes=activation_bytes // len(batch),
    )


def _trace(model: nn.Module, x: Tensor) -> tuple[int, int]:
    """FLOPs of one forward pass, and the bytes that autograd keeps besides the model itself."""
    flops = 0
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, UntypedStorage] = {}

    def add(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        nonlocal flops
        weight = layer.get_parameter("weight")
        flops += 2 * output.numel() * (weight.numel() // len(weight))

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
            module.register_forward_hook(add)
    saving = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with torch.random.fork_rng(devices=[]), saving:
        model(x)
    return flops, sum(storage.nbytes() for storage in kept.values())
