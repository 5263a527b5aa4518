"""Networks as plain data: a spec is a tuple of layers, and counting needs no tensor library.

The planner asks :func:`count` what a model weighs; ``models.build`` makes the very same spec a torch module.
Convolutions and pools are padded so that a stride of one keeps the size of the map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from littoral.errors import InputError

Shape: TypeAlias = tuple[int, ...]  # one sample: (channels, height, width), or (features,)


@dataclass(frozen=True, slots=True)
class Conv:
    out: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1  # as many as input channels: a depthwise convolution
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Norm:
    """Batch normalisation: a scale and a shift trained, a running mean and variance kept, per channel."""


@dataclass(frozen=True, slots=True)
class Relu:
    pass


@dataclass(frozen=True, slots=True)
class MaxPool:
    size: int = 2
    stride: int = 2


@dataclass(frozen=True, slots=True)
class GlobalPool:
    """The mean of each channel."""


@dataclass(frozen=True, slots=True)
class Flatten:
    pass


@dataclass(frozen=True, slots=True)
class Linear:
    out: int


@dataclass(frozen=True, slots=True)
class Residual:
    """``body(x) + shortcut(x)``; an empty shortcut is the identity."""

    body: Spec
    shortcut: Spec = ()


@dataclass(frozen=True, slots=True)
class Branches:
    """Every body sees the same input; their outputs are concatenated on the channels."""

    bodies: tuple[Spec, ...]


Layer: TypeAlias = Conv | Norm | Relu | MaxPool | GlobalPool | Flatten | Linear | Residual | Branches
Spec: TypeAlias = tuple[Layer, ...]


def padding(kernel: int) -> int:
    """Zeros added on each side by a window of this size."""
    return (kernel - 1) // 2


def output_shape(spec: Spec, shape: Shape) -> Shape:
    """The shape of one sample after the whole spec."""
    for layer in spec:
        match layer:
            case Conv(out=out, kernel=kernel, stride=stride):
                shape = (out, *_slide(shape, kernel, stride))
            case MaxPool(size=size, stride=stride):
                shape = (shape[0], *_slide(shape, size, stride))
            case GlobalPool():
                shape = shape[:1]
            case Flatten():
                shape = (math.prod(shape),)
            case Linear(out=out):
                shape = (out,)
            case Residual(body=body):
                shape = output_shape(body, shape)
            case Branches(bodies=bodies):
                outputs = [output_shape(body, shape) for body in bodies]
                shape = (sum(output[0] for output in outputs), *outputs[0][1:])
    return shape


def _slide(shape: Shape, window: int, stride: int) -> Shape:
    if len(shape) != 3:
        raise InputError(
            f"a model for images was given samples of shape {shape}",
            remedy="give (channels, height, width), or use the model 'mlp'",
        )
    sides = tuple((side + 2 * padding(window) - window) // stride + 1 for side in shape[1:])
    if min(sides) < 1:
        raise InputError(f"an image of shape {shape} is too small for this model", remedy="use 8x8 or larger")
    return sides


@dataclass(frozen=True, slots=True)
class Size:
    """What one model weighs; FLOPs and activations are for one sample.

    A multiply-add of a convolution or linear layer counts as two FLOPs; everything else is left out.
    ``activation_floats`` are those kept for the backward pass: a norm's output is not, since the layers that
    follow it keep theirs; the indices of a max pool weigh two floats each.
    """

    parameters: int = 0
    buffers: int = 0
    flops_forward: int = 0
    activation_floats: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.parameters + other.parameters,
            self.buffers + other.buffers,
            self.flops_forward + other.flops_forward,
            self.activation_floats + other.activation_floats,
        )


def count(spec: Spec, shape: Shape) -> Size:
    """Size of the model that ``spec`` describes, for samples of this shape.

    >>> count((Flatten(), Linear(10)), (1, 28, 28)).parameters
    7850
    """
    total = Size()
    for layer in spec:
        total += _count_layer(layer, shape)
        shape = output_shape((layer,), shape)
    return total


def _count_layer(layer: Layer, shape: Shape) -> Size:
    output = output_shape((layer,), shape)
    floats = math.prod(output)
    match layer:
        case Conv(out=out, kernel=kernel, groups=groups, bias=bias):
            weights = out * (shape[0] // groups) * kernel**2
            return Size(weights + bias * out, 0, 2 * weights * math.prod(output[1:]), floats)
        case Linear(out=out):
            return Size(shape[0] * out + out, 0, 2 * shape[0] * out, floats)
        case Norm():
            return Size(2 * shape[0], 2 * shape[0], 0, 0)
        case Residual(body=body, shortcut=shortcut):
            return count(body, shape) + count(shortcut, shape)
        case Branches(bodies=bodies):
            return sum((count(body, shape) for body in bodies), Size())
        case MaxPool():
            return Size(activation_floats=3 * floats)
        case Flatten():
            return Size()
        case Relu() | GlobalPool():
            return Size(activation_floats=floats)
