"""A run's folder, read into the plain records that tables and figures need.

The journal says what was asked for, planned and done; only the final account comes from ``result.json``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.events import AppChecked, Evaluated, RunStarted
from littoral.journal import read_journal
from littoral.planning.plan import Plan
from littoral.reports.reader import Happening, Reader, Transfer
from littoral.reports.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What one run was and did. Spans are per node, in seconds of the run's clock."""

    folder: str
    seed: int
    timing_only: bool
    job: dict[str, Any]
    continuum: Continuum
    plan: Plan
    result: dict[str, Any]
    versions: dict[str, str]
    job_yaml: str
    continuum_yaml: str
    seconds: float
    evaluations: tuple[Evaluated, ...]
    epochs: tuple[float, ...]
    happenings: tuple[Happening, ...]
    apps: tuple[AppChecked, ...]
    transfers: tuple[Transfer, ...]
    computing: dict[str, list[Span]]
    sending: dict[str, list[Span]]
    fetching: dict[str, list[Span]]
    lost: dict[str, list[Span]]
    waiting: dict[str, list[Span]]

    @property
    def detailed(self) -> bool:
        """Whether the journal kept single steps and messages."""
        return bool(self.computing or self.sending)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Servers, then workers, as planned."""
        return (*(s.name for s in self.plan.servers), *(w.name for w in self.plan.workers))


def read_story(path: Path) -> Story:
    """The story of the run in a folder (or of the journal that is named)."""
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        raise InputError("there is no such run folder", file=path, remedy="name a folder that 'littoral run' wrote")
    reader = Reader()
    for event in read_journal(folder / "journal.jsonl"):
        reader.update(event)
    if reader.started is None:
        remedy = "the run never began: repeat it with 'littoral run'"
        raise InputError("the journal has no RunStarted line", file=folder / "journal.jsonl", remedy=remedy)
    return _told(folder, reader, reader.started)


def _told(folder: Path, reader: Reader, started: RunStarted) -> Story:
    result = _read_json(folder / "result.json", "the run has not finished: let it, or repeat it with 'littoral run'")
    versions = folder / "versions.json"
    continuum_yaml = _yaml(started.continuum)
    try:
        plan = msgspec.convert(started.plan, Plan)
    except msgspec.ValidationError as error:
        remedy = "the journal was changed or comes from another version"
        raise InputError(f"not a plan: {error}", file=folder / "journal.jsonl", line=1, remedy=remedy) from error
    return Story(
        folder=folder.resolve().name,
        seed=started.seed,
        timing_only=started.timing_only,
        job=started.job,
        continuum=_continuum(continuum_yaml),
        plan=plan,
        result=result,
        versions=_read_json(versions, "remove it") if versions.exists() else {},
        job_yaml=_yaml(started.job),
        continuum_yaml=continuum_yaml,
        seconds=reader.now,
        evaluations=tuple(reader.evaluations),
        epochs=tuple(reader.epochs),
        happenings=tuple(reader.happenings),
        apps=tuple(reader.apps),
        transfers=tuple(reader.transfers),
        computing=dict(reader.computing),
        sending=dict(reader.sending),
        fetching=dict(reader.fetching),
        lost=reader.lost_spans(),
        waiting=reader.waits({worker.name for worker in plan.workers}),
    )


@lru_cache(maxsize=4)  # the runs of one report mostly share a continuum
def _continuum(text: str) -> Continuum:
    return parse_continuum(text)


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy=remedy) from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path, remedy=remedy) from error
    if not isinstance(found, dict):
        raise InputError("not a JSON object", file=path, remedy=remedy)
    return found
