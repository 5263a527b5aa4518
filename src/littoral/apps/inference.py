"""A small picture classifier that answers one request per period, on one thread."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import TYPE_CHECKING

from littoral.apps.registry import Setting
from littoral.learning.task import require_torch

if TYPE_CHECKING:
    from torch import Tensor, nn

_SIDE, _CLASSES, _REQUESTS = 96, 10, 16


class Inference:
    """Three convolutions on a 96x96 colour picture; weights and pictures are seeded noise, the work is the same."""

    def __init__(self, setting: Setting) -> None:
        self._seed = setting.seed
        self.answers = [0] * _CLASSES

    def prepare(self) -> None:
        require_torch("the app inference")
        import torch

        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            self._model = _network().eval()
            self._requests = cycle(list(torch.rand(_REQUESTS, 1, 3, _SIDE, _SIDE)))
        self._classify(next(self._requests))  # the first pass also sets up torch

    def work(self) -> None:
        self.answers[self._classify(next(self._requests))] += 1

    def close(self) -> None:
        pass

    def _classify(self, picture: Tensor) -> int:
        import torch

        with torch.inference_mode():
            return int(self._model(picture).argmax())


def _network() -> nn.Module:
    from torch import nn

    channels = (3, 16, 32, 64)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], _CLASSES))


APP = Inference
