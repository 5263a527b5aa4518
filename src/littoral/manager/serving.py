"""Predictions by the current version. A swap changes one reference: each request uses the version it began with.

A new version is loaded beside the old one, which answers until the new one is ready; nothing waits and nothing is lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from littoral.learning.task import require_torch
from littoral.manager.inputs import Kind, at_index
from littoral.manager.model_records import Model
from littoral.manager.refusals import Conflict
from littoral.manager.registry import Registry
from littoral.manager.stores import Stores
from littoral.manager.weights import load_model

if TYPE_CHECKING:
    from torch import Tensor, nn

LARGEST_BATCH = 4096
_AT_ONCE = 512  # inputs in one forward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Labels and probabilities for a batch of inputs, all by one version."""

    version: int
    labels: list[int]
    probabilities: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Served:
    version: int
    kind: Kind
    module: nn.Module


class Serving:
    """What is served now, by model; computes in the caller's thread."""

    def __init__(self, registry: Registry, stores: Stores) -> None:
        self._registry, self._stores = registry, stores
        self._served: dict[str, _Served] = {}
        self._loading, self._counting = threading.Lock(), threading.Lock()
        self.answered: Counter[str] = Counter()  # inputs since the start, by model

    def predict(self, name: str, inputs: NDArray[Any]) -> Answer:
        """Answer for checked inputs (see ``kind``)."""
        answer = _answer(self._of(name), inputs)
        with self._counting:
            self.answered[name] += len(inputs)
        return answer

    def kind(self, name: str) -> Kind:
        """What the model takes."""
        return self._of(name).kind

    def refresh(self, name: str) -> int | None:
        """Serve what the registry says is current; its number. Called after every promotion and rollback."""
        require_torch("serving predictions")
        with self._loading:
            model = self._registry.get(name)
            served = self._served.get(name)
            if model.current is None or (served is not None and served.version == model.current):
                return model.current
            version = self._registry.version(name, model.current)
            content = self._registry.weights.read(name, version.file)
            module = load_model(model.make_task(), content, version.file)
            self._served[name] = _Served(version.number, self._stores.get(model.store).kind, module)
            return version.number

    def follow(self, model: Model) -> None:
        """Swap if the model is loaded and another version is current by now."""
        served = self._served.get(model.name)
        if served is not None and served.version != model.current:
            self.refresh(model.name)

    def forget(self, name: str) -> None:
        """The model is gone."""
        self._served.pop(name, None)
        self.answered.pop(name, None)

    def _of(self, name: str) -> _Served:
        served = self._served.get(name)
        if served is None:
            self.refresh(name)
            served = self._served.get(name)
        if served is None:
            raise Conflict(f"model {name!r} has no version to serve", remedy="update it, or give it weights")
        return served


def _in_parts(module: nn.Module, batch: Tensor) -> Tensor:
    import torch

    return torch.cat([module(part) for part in torch.split(batch, _AT_ONCE)])


def _answer(served: _Served, inputs: NDArray[Any]) -> Answer:
    import torch

    with torch.inference_mode():
        batch = torch.from_numpy(served.kind.scaled(inputs))
        output = served.module(batch) if len(batch) <= _AT_ONCE else _in_parts(served.module, batch)
        finite = torch.isfinite(output).all(dim=1)
        if not finite.all():
            raise at_index(
                int(finite.int().argmin()), "the model has no finite answer", "check the scale of its values"
            )
        chances = torch.softmax(output, dim=1)
    return Answer(version=served.version, labels=chances.argmax(dim=1).tolist(), probabilities=chances.numpy())
