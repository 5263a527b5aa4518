"""Weights on disk: one safetensors file per content, named by its hash, there before any row speaks of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from littoral.errors import InputError
from littoral.learning.task import Task
from littoral.planning.plan import Plan
from littoral.rundir import CHECKPOINT
from littoral.strategies.strategy import make_strategy
from littoral.tasks.stored import load_weights, sync_folder, write_down

if TYPE_CHECKING:
    from torch import nn


class Weights:
    """Files ``<model>/<sha256>.safetensors`` of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, model: str, content: bytes) -> str:
        """The file's name; on the disk, whole, when this returns."""
        name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        path = self._folder / model / name
        if path.exists():
            return name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{name}.{uuid.uuid4().hex}.tmp")  # the same may come twice at a time
        write_down(draft, content)
        os.replace(draft, path)
        sync_folder(path.parent)
        sync_folder(self._folder)
        return name

    def read(self, model: str, name: str) -> bytes:
        """The content, once it is what its name says."""
        path = self._folder / model / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"the weights are gone ({error.strerror})", file=path, remedy="roll back") from error
        if not name.startswith(hashlib.sha256(content).hexdigest()):
            raise InputError("the weights are damaged", file=path, remedy="restore a backup, or roll back")
        return content

    def sweep(self, known: Collection[tuple[str, str]]) -> list[Path]:
        """Remove what no row speaks of: a crash came between file and row. Only while nobody keeps anything."""
        gone = []
        for folder in self._folder.iterdir() if self._folder.exists() else ():
            for path in [path for path in folder.iterdir() if (folder.name, path.name) not in known]:
                path.unlink()
                gone.append(path)
        return gone

    def forget(self, model: str) -> None:
        """Remove all of a model that is gone."""
        shutil.rmtree(self._folder / model, ignore_errors=True)


def load_model(task: Task, content: bytes, source: str) -> nn.Module:
    """A model ready to predict, with one thread: beside a training, more would only wait for each other."""
    import torch

    torch.set_num_threads(1)
    model = task.model()
    load_weights(model, content, source)
    return model.eval()


def harvest(task: Task, run: Path) -> bytes:
    """The weights that a finished run left in its folder: of its last checkpoint, the mean where several hold it."""
    import torch
    from safetensors.torch import save

    from littoral.learning.checkpoint import load_checkpoint
    from littoral.learning.replica import Replica

    checkpoint = load_checkpoint(run / CHECKPOINT)
    plan = msgspec.convert(json.loads((run / "plan.json").read_text()), Plan)
    replica = Replica(task, 0)
    members = tuple(checkpoint.metadata["members"]) or tuple(worker.name for worker in plan.workers)
    places: dict[int, list[torch.Tensor]] = {}
    for source in make_strategy(plan.strategy, plan.parameters).sources(plan, members, len(replica)):
        places.setdefault(source.start, []).append(source.state(checkpoint.tensors)["vector"])
    for start, vectors in places.items():
        replica.load(torch.stack(vectors).mean(dim=0), start)
    return save({name: tensor.contiguous().clone() for name, tensor in replica.model.state_dict().items()})
