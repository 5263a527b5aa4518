"""The networks a task can name, each a function from the shape of a sample to a spec of layers.

``width`` scales them from some ten thousand parameters (``mlp``, ``lenet`` on 8x8) to over 20 million
(``mobilenet`` at 3.2 on 32x32). All of them accept images of 8x8 and larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from littoral.learning.layers import (
    Branches,
    Conv,
    Flatten,
    GlobalPool,
    Linear,
    MaxPool,
    Norm,
    Relu,
    Residual,
    Shape,
    Size,
    Spec,
    count,
    output_shape,
)

__all__ = ["ARCHITECTURES", "Architecture", "Shape", "Size", "Spec", "count"]


class Architecture(Protocol):
    """Makes the spec for samples of one shape; ``width`` multiplies the channels or hidden units."""

    def __call__(self, shape: Shape, classes: int, width: float = 1.0) -> Spec: ...


def mlp(shape: Shape, classes: int, width: float = 1.0, hidden: int = 200) -> Spec:
    """One hidden layer."""
    return (Flatten(), Linear(_wide(hidden, width)), Relu(), Linear(classes))


def lenet(shape: Shape, classes: int, width: float = 1.0) -> Spec:
    """LeNet-5 with rectifiers, max pools and padded convolutions."""
    c1, c2, f1, f2 = (_wide(units, width) for units in (6, 16, 120, 84))
    features: Spec = (Conv(c1, 5, bias=True), Relu(), MaxPool(), Conv(c2, 5, bias=True), Relu(), MaxPool())
    return (*features, Flatten(), Linear(f1), Relu(), Linear(f2), Relu(), Linear(classes))


def resnet(shape: Shape, classes: int, width: float = 1.0, *, blocks: int) -> Spec:
    """He et al. 2016, section 4.2: three stages of ``blocks`` residual blocks, for small images."""
    channels = _wide(16, width)
    spec: Spec = _unit(channels)
    for stage in range(3):
        for block in range(blocks):
            out = _wide(16 * 2**stage, width)
            stride = _shrink(spec, shape) if stage and not block else 1
            body: Spec = (*_unit(out, stride=stride), Conv(out), Norm())
            shortcut: Spec = () if (stride, channels) == (1, out) else (Conv(out, 1, stride), Norm())
            spec, channels = (*spec, Residual(body, shortcut), Relu()), out
    return (*spec, GlobalPool(), Linear(classes))


def mobilenet(shape: Shape, classes: int, width: float = 1.0) -> Spec:
    """MobileNetV2 (Sandler et al. 2018, table 2) with the first two strides removed, for small images."""
    channels = _wide(32, width)
    spec: Spec = _unit(channels)
    for expansion, base, repeats, stride in _MOBILENET:
        for repeat in range(repeats):
            out, inner = _wide(base, width), channels * expansion
            step = _shrink(spec, shape) if stride == 2 and not repeat else 1
            depthwise = _unit(inner, stride=step, groups=inner)
            body: Spec = (*_unit(inner, 1), *depthwise, Conv(out, 1), Norm())
            spec += (Residual(body),) if (step, channels) == (1, out) else body
            channels = out
    return (*spec, *_unit(_wide(1280, width), 1), GlobalPool(), Linear(classes))


# Expansion, channels, repeats, stride of the first.
_MOBILENET = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def inception(shape: Shape, classes: int, width: float = 1.0) -> Spec:
    """GoogLeNet's block (Szegedy et al. 2015), normalised, in three stages of two, for small images."""
    spec: Spec = _unit(_wide(64, width))
    for stage, channels in enumerate((256, 512, 1024)):
        if stage:
            spec += (MaxPool(3, _shrink(spec, shape)),)
        spec += 2 * (_inception_block(_wide(channels, width)),)
    return (*spec, GlobalPool(), Linear(classes))


def _inception_block(channels: int) -> Branches:
    def part(share: float) -> int:
        return _wide(channels, share)

    return Branches(
        (
            _unit(part(1 / 4), 1),
            (*_unit(part(3 / 8), 1), *_unit(part(1 / 2))),
            (*_unit(part(1 / 16), 1), *_unit(part(1 / 8), 5)),
            (MaxPool(3, 1), *_unit(part(1 / 8), 1)),
        )
    )


def _unit(out: int, kernel: int = 3, *, stride: int = 1, groups: int = 1) -> Spec:
    return (Conv(out, kernel, stride, groups), Norm(), Relu())


def _wide(units: int, width: float) -> int:
    return max(1, round(units * width))


def _shrink(spec: Spec, shape: Shape) -> int:
    """Stride 2 while the map is large enough: a norm over a 1x1 map cannot train on a batch of one."""
    return 2 if min(output_shape(spec, shape)[1:]) > 4 else 1


ARCHITECTURES: Mapping[str, Architecture] = {
    "mlp": mlp,
    "lenet": lenet,
    "resnet8": partial(resnet, blocks=1),
    "resnet20": partial(resnet, blocks=3),
    "mobilenet": mobilenet,
    "inception": inception,
}
