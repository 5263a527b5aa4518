"""A run in MLflow's file store (the folder ``mlruns``), written without it.

mlruns/<experiment>/meta.yaml                      the experiment: one per name of a job
mlruns/<experiment>/<run>/meta.yaml                the run, its state and its times in milliseconds
.../metrics/<name>                                 a line per point: milliseconds, value, step
.../params/<name>   .../tags/<name>                one value each
.../artifacts/                                     the run's own files
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

import littoral
from littoral.errors import InputError
from littoral.reports.curves import Curves, Point, plain_name, read_curves
from littoral.result import FINISHED
from littoral.rundir import write_whole

_RUNNING, _FINISHED, _FAILED = 1, 3, 4  # states
_LOCAL = 4  # type of the source
_LONGEST = 500  # characters of a parameter
_ARTIFACTS = ("job.yaml", "continuum.yaml", "plan.json", "versions.json", "result.json")


def write_mlflow(run: Path, out: Path) -> Path:
    """The run's folder in the store ``out``, which is made if there is none."""
    told = read_curves(run)
    experiment = _experiment(told.job, out)
    identity = hashlib.sha256(f"{run.resolve()} {told.ended}".encode()).hexdigest()[:32]
    folder = experiment / identity
    if folder.exists():
        raise InputError("this run was exported here already", file=folder, remedy="remove it, or choose another --out")
    draft = experiment / f".{identity}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    _write(draft, told, _meta(told, run.resolve().name, folder))
    for name in _ARTIFACTS:
        if (run / name).exists():
            shutil.copyfile(run / name, draft / "artifacts" / name)
    os.rename(draft, folder)
    return folder


def _experiment(name: str, out: Path) -> Path:
    """By the job's name; its number has eighteen digits, as MLflow's own have."""
    number = str(10**17 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % (9 * 10**17))
    folder = out / number
    folder.mkdir(parents=True, exist_ok=True)
    (out / ".trash").mkdir(exist_ok=True)
    if not (folder / "meta.yaml").exists():
        meta = {
            "artifact_location": folder.resolve().as_uri(), "creation_time": 0, "experiment_id": number,
            "last_update_time": 0, "lifecycle_stage": "active", "name": name,
        }  # fmt: skip
        write_whole(folder / "meta.yaml", yaml.safe_dump(meta))
    return folder


def _meta(told: Curves, name: str, folder: Path) -> dict[str, Any]:
    ended = told.reason != ""
    state = (_FINISHED if told.reason in FINISHED else _FAILED) if ended else _RUNNING
    return {
        "artifact_uri": (folder.resolve() / "artifacts").as_uri(), "end_time": _ms(told.ended) if ended else None,
        "entry_point_name": "", "experiment_id": folder.parent.name, "lifecycle_stage": "active",
        "run_id": folder.name, "run_name": name, "run_uuid": folder.name, "source_name": "", "source_type": _LOCAL,
        "source_version": "", "start_time": _ms(told.began), "status": state, "tags": [], "user_id": "littoral",
    }  # fmt: skip


def _write(folder: Path, told: Curves, meta: Mapping[str, Any]) -> None:
    for part in ("metrics", "params", "tags", "artifacts"):
        (folder / part).mkdir(parents=True)
    write_whole(folder / "meta.yaml", yaml.safe_dump(dict(meta)))
    for name, points in told.curves.items():
        _put(folder / "metrics", name, _lines(told, points))
    last = max((point.step for points in told.curves.values() for point in points), default=0)
    for name, value in told.figures.items():
        _put(folder / "metrics", f"result/{name}", _lines(told, [Point(told.ended - told.began, last, value)]))
    for name, text in told.settings.items():
        _put(folder / "params", name, text[:_LONGEST])
    tags = {
        "mlflow.runName": str(meta["run_name"]), "mlflow.source.name": "littoral", "mlflow.source.type": "LOCAL",
        "littoral.version": littoral.__version__, "littoral.reason": told.reason,
    }  # fmt: skip
    for name, text in tags.items():
        _put(folder / "tags", name, text)


def _lines(told: Curves, points: Iterable[Point]) -> str:
    return "".join(f"{_ms(told.began + point.t)} {point.value!r} {point.step}\n" for point in points)


def _put(folder: Path, name: str, text: str) -> None:
    path = folder / plain_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
