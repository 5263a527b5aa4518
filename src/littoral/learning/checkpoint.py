"""A checkpoint is one safetensors file, written whole or not at all; no code can hide in it.

The metadata is JSON inside the file's header. A timing-only run saves no tensors: the same file, header only,
for which torch is not needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from littoral.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_KEY = "littoral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What was saved: tensors by name, and whatever JSON can hold."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write, flush to disk, rename: a crash leaves the previous checkpoint or the new one, never half."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    content = serialise(arrays, {_KEY: json.dumps(dict(metadata))})
    # In the same folder, since a rename cannot cross disks.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> Checkpoint:
    """What :func:`save_checkpoint` wrote; anything else is refused."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError as error:
        raise InputError("no such checkpoint", file=path, remedy="check the path") from error
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"truncated, or not a checkpoint ({error})", file=path, remedy="use an earlier checkpoint"
        ) from error
    if _KEY not in header:
        raise InputError("a safetensors file that Littoral did not write", file=path, remedy="name a checkpoint")
    return Checkpoint(tensors=_tensors(arrays), metadata=json.loads(header[_KEY]))


def _tensors(arrays: dict[str, Any]) -> dict[str, Tensor]:
    if not arrays:
        return {}
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}
