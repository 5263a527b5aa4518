"""A run's folder: its files in, its journal, its checkpoint, its result out. Files appear whole or not at all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import yaml

from littoral.continuum.write import continuum_document
from littoral.job import Job, job_document
from littoral.learning.task import Task, load_task
from littoral.planning.plan import Plan
from littoral.strikes import Strikes
from littoral.supervisor import CONSECUTIVE

CHECKPOINT = "checkpoint.safetensors"
_PACKAGES = ("littoral", "torch", "numpy", "scikit-learn", "msgspec")


class RunFolder:
    """Where everything about one run is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self._checkpoint = folder / CHECKPOINT
        self.before_saving: Callable[[], None] = lambda: None  # what a checkpoint relies on must be kept first

    def begin(self, job: Job, plan: Plan) -> None:
        """Write what is needed to repeat the run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / "continuum.yaml", _yaml(continuum_document(job.continuum)))
        write_whole(self.folder / "job.yaml", _yaml(job_document(job)))
        write_whole(self.folder / "plan.json", json.dumps(msgspec.to_builtins(plan), indent=2) + "\n")
        write_whole(self.folder / "versions.json", json.dumps(versions(), indent=2) + "\n")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write what came out."""
        write_whole(self.folder / "result.json", json.dumps(result, indent=2) + "\n")

    # -- checkpoints --------------------------------------------------------------------------------------------

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        from littoral.learning.checkpoint import save_checkpoint

        self.before_saving()
        save_checkpoint(self._checkpoint, tensors, metadata)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The last checkpoint, if there is one."""
        from littoral.learning.checkpoint import load_checkpoint

        if not self._checkpoint.exists():
            return None
        checkpoint = load_checkpoint(self._checkpoint)
        return checkpoint.tensors, checkpoint.metadata

    # -- strikes ------------------------------------------------------------------------------------------------

    def strikes(self) -> Strikes:
        """Who failed how often in the runs beside this one."""
        path = self._strikes
        return Strikes.from_json(path.read_bytes(), path) if path.exists() else Strikes()

    def change_strikes(self, change: Callable[[Strikes], Strikes]) -> Strikes:
        """Replace the record by what ``change`` makes of it, while no other run does; the new one."""
        self._strikes.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self._strikes.with_name(".strikes.lock")):
            strikes = change(self.strikes())
            write_whole(self._strikes, strikes.to_json(), flush=True)
        return strikes

    @property
    def _strikes(self) -> Path:
        return self.folder.parent / ".strikes.json"

    # -- the yardstick ------------------------------------------------------------------------------------------

    def reference(self, job: Job, task: Task, seed: int) -> int | None:
        """Samples that one device alone needs to the target; measured once per task, target and seed."""
        from littoral.learning.reference import samples_to_target

        if job.accuracy is None:
            return None
        recipe = job.recipe if job.yardstick is None else job.yardstick
        if recipe != job.recipe:
            task = load_task(job.task, job.task_options, recipe)
        cache = self.folder.parent / ".reference.json"
        key = json.dumps(
            [job.task, job.task_options, recipe, job.accuracy, seed, job.evaluate_every, job.epochs], sort_keys=True
        )
        known = _read_cache(cache)
        if key not in known:
            found = samples_to_target(
                task, job.accuracy, seed, evaluate_every=job.evaluate_every, epochs=2 * job.epochs,
                consecutive=CONSECUTIVE,
            )  # fmt: skip
            cache.parent.mkdir(parents=True, exist_ok=True)
            with _alone(cache.with_name(".reference.lock")):
                known = _read_cache(cache) | {key: found}  # another run may have added its own meanwhile
                write_whole(cache, json.dumps(known, indent=2) + "\n")
        return known[key]


def _read_cache(path: Path) -> dict[str, int | None]:
    found: dict[str, int | None] = json.loads(path.read_text()) if path.exists() else {}
    return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is here. The lock dies with its holder."""
    import fcntl  # late: only Unix has it, and most runs do without

    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, text: str, *, flush: bool = False) -> None:
    """Write a file so that a crash leaves the old one or the new one; flushed to the disk, a power cut does, too."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        if flush:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)


def versions() -> dict[str, str]:
    """What a reader needs to repeat a run."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=110)
