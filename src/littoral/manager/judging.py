"""How good a version is on recent samples that nobody trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from littoral.learning.task import Task
from littoral.manager.gate import Score
from littoral.manager.inputs import Kind
from littoral.manager.model_records import Model
from littoral.manager.registry import Registry
from littoral.manager.samples import Samples
from littoral.manager.weights import load_model

if TYPE_CHECKING:
    from torch import nn

_AT_ONCE = 512
_ALL = 2**62  # later than any label


class Judge:
    """Scores versions of one model on the same samples: the newest held-out ones, as its gate wants them.

    After an alarm what came before it tells little of what is asked now: only those labelled ``since`` count then, and
    as many older ones as are missing to the gate's ``least_samples``.
    """

    def __init__(self, model: Model, samples: Samples, registry: Registry, *, since: int | None = None) -> None:
        self._model, self._registry = model, registry
        self._task = model.make_task()
        self._kind = samples.stores.get(model.store).kind
        most = model.gate.window
        if since is not None:
            most = min(most, max(model.gate.least_samples, samples.held_out_since(model.store, since)))
        self._x, self._y = samples.labelled(model.store, held_out=True, upto=_ALL, most=most)

    def score(self, file: str) -> Score:
        """Of weights that the registry keeps."""
        module = load_model(self._task, self._registry.weights.read(self._model.name, file), file)
        return score(self._task, module, self._kind, self._x, self._y)

    def current(self) -> Score | None:
        """Of the version that is served."""
        if self._model.current is None:
            return None
        return self.score(self._registry.version(self._model.name, self._model.current).file)


def score(task: Task, module: nn.Module, kind: Kind, x: NDArray[Any], y: NDArray[np.int64]) -> Score:
    """The task's metric; 0 of 0 where there are no samples."""
    import torch

    if not len(x):
        return Score(accuracy=0.0, samples=0)
    with torch.inference_mode():
        parts = torch.split(torch.from_numpy(kind.scaled(x)), _AT_ONCE)
        output = torch.cat([module(part) for part in parts])
        return Score(accuracy=float(task.metric(output, torch.from_numpy(y))), samples=len(x))
