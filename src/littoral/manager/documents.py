"""Documents from strangers: checked by the same code as files, and kept from reaching files or code of this machine.

A document is the YAML file's content as JSON. Traces must be spelled out as steps, tasks, strategies and apps are those
that come with Littoral or that the operator allowed by name, and a task's ``folder`` is one of ``datasets`` in the data
folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from littoral.apps.registry import BUILT_IN as APPS
from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.document import parse_document, suggest
from littoral.errors import InputError, brief
from littoral.job import Job, load_job
from littoral.strategies.strategy import REGISTRY, declared

DRAFTS = "drafts"  # in the data folder: files of a moment
MOST_DEVICES = 10_000  # of one continuum
STORED = "littoral.tasks.stored"  # names another task in its options, and is for the manager's own updates
_TASKS = re.compile(r"littoral\.tasks\.[a-z0-9_]+")
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """All that a job needs: its document, its continuum's, and the files of its profile if it names one."""

    job: dict[str, Any]
    continuum: dict[str, Any]
    profile: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path, data: Path) -> Path:
        """As files that ``load_job`` reads; the job's. ``data`` is the manager's folder, with the task's files."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "continuum.yaml").write_text(text_of(self.continuum), encoding="utf-8")
        document = {**placed(self.job, data), "continuum": "continuum.yaml"}
        if self.profile:
            document["profile"] = "profile"
            (folder / "profile").mkdir(exist_ok=True)
            for name, text in self.profile.items():
                (folder / "profile" / name).write_text(text, encoding="utf-8")
        (folder / "job.yaml").write_text(text_of(document), encoding="utf-8")
        return folder / "job.yaml"

    def load(self, data: Path) -> Job:
        """The job, checked as its files would be."""
        with TemporaryDirectory(dir=data / DRAFTS) as folder:
            return load_job(self.write(Path(folder), data))


def text_of(document: Mapping[str, Any]) -> str:
    """A document as text that reads as YAML; what JSON or YAML cannot say is refused."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (ValueError, RecursionError) as error:
        remedy = "leave out NaN, infinity, half characters and endless nesting"
        raise InputError("the document has a value that cannot be written", remedy=remedy) from error
    return text


def continuum_of(document: Mapping[str, Any], name: str, allowed: Collection[str] = ()) -> Continuum:
    """The continuum of a document, under the name it is kept by."""
    if document.get("name", name) != name:
        raise InputError(f"the document is named {brief(document['name'])}", remedy=f"name it {name!r}", key="name")
    text = text_of({**document, "name": name})
    parse_document(text, Path("document"))  # shallow enough for what follows
    _refuse_traces(document)
    _refuse_crowds(document.get("devices"))
    continuum = parse_continuum(text, Path("document"))
    for app in continuum.apps:
        if app.run and app.run not in APPS and app.run not in allowed:
            raise _not_allowed("app", app.run, [*APPS, *allowed])
    return continuum


def check_job(document: Mapping[str, Any], allowed: Collection[str] = ()) -> dict[str, Any]:
    """A job's document, whose names lead nowhere but where they may."""
    parse_document(text_of(document), Path("document"))
    task, strategy = document.get("task"), document.get("strategy", "auto")
    _check_task(_name_of(task), allowed)
    named = _name_of(strategy)
    if isinstance(named, str) and named not in {"auto", *REGISTRY, *declared(), *allowed}:
        raise _not_allowed("strategy", named, ["auto", *REGISTRY, *declared(), *allowed])
    for key, value in task.items() if isinstance(task, dict) else ():
        _check_option(key, value)
    return dict(document)


def placed(document: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """A job's document whose task finds its files in the data folder, wherever that is by now.

    Documents are kept with names: of a folder in ``datasets``, and for an update of its samples' place.
    """
    task = document.get("task")
    if not isinstance(task, dict):
        return dict(document)
    if task.get("name") != STORED:
        return {**document, "task": place_options(task, data)}
    options = place_options(task.get("options", {}), data)
    return {**document, "task": {**task, "folder": str(data.resolve() / task["folder"]), "options": options}}


def place_options(options: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """A task's options, with a folder of ``datasets`` spelled out; what counts of it is its last name."""
    folder = options.get("folder")
    if not isinstance(folder, str):
        return dict(options)
    return {**options, "folder": str(data.resolve() / "datasets" / Path(folder).name)}


def _check_task(name: Any, allowed: Collection[str]) -> None:
    built_in = isinstance(name, str) and _TASKS.fullmatch(name) and name != STORED
    if isinstance(name, str) and not built_in and name not in allowed:
        raise _not_allowed("task", name, ["littoral.tasks.digits", *allowed])


def _check_option(key: str, value: Any) -> None:
    """Of a task: a folder is one of ``datasets``, and nothing else is a path."""
    if key == "folder" and not (isinstance(value, str) and _SAFE.fullmatch(value)):
        remedy = "name a folder in 'datasets' of the manager's data folder"
        raise InputError(f"the task's folder is {brief(value)}", remedy=remedy, key="task")
    if isinstance(value, str) and (re.search(r"[/\\]", value) or value.startswith(".")):
        raise InputError(f"the task's option {brief(key)} is a path", remedy="give a plain word", key="task")


def _name_of(named: Any) -> Any:
    return named.get("name") if isinstance(named, dict) else named


def _not_allowed(what: str, name: str, known: list[str]) -> InputError:
    remedy = f"{suggest(name, known)} The operator can allow it: littoral serve --allow-task {name}"
    return InputError(f"the {what} {brief(name)} is not allowed here", remedy=remedy, key=what)


def _refuse_traces(value: Any) -> None:
    if isinstance(value, dict):
        if "trace" in value:
            remedy = "spell it out: {steps: [[0 s, 20 Mbit/s], ...]}, as littoral submit does"
            raise InputError("'trace' names a file, which the manager does not read", remedy=remedy, key="trace")
        value = list(value.values())
    for inner in value if isinstance(value, list) else []:
        _refuse_traces(inner)


def _refuse_crowds(devices: Any) -> None:
    """Before they are made."""
    rows = [row for row in devices if isinstance(row, dict)] if isinstance(devices, list) else []
    counts = [row.get("count", 1) for row in rows]
    if sum(count for count in counts if isinstance(count, int)) > MOST_DEVICES:
        raise InputError(f"more than {MOST_DEVICES} devices", remedy="describe fewer", key="devices")
