"""A profile: what was measured, and which models were found to suit it. A folder of two CSV files and one JSON file.

Models themselves are not kept: they are fitted again from the rows, which takes seconds and runs no stranger's code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from littoral.errors import InputError
from littoral.profiling.automl import Choice
from littoral.profiling.families import FAMILIES
from littoral.profiling.features import TRAINING, app_of, function
from littoral.profiling.rows import AppRow, TrainingRow
from littoral.profiling.sheets import read, written

_TRAINING, _APPS, _CHOICES = "training.csv", "apps.csv", "choices.json"
_AGAIN = "delete the file and fit the profile again"


class Key(NamedTuple):
    """What a choice is for; ``task`` is empty for the functions of apps."""

    kind: str
    task: str
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Rows of any number of device kinds, tasks and apps, and the choices made for them so far."""

    training: tuple[TrainingRow, ...] = ()
    apps: tuple[AppRow, ...] = ()
    choices: Mapping[Key, Choice] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """The device kinds and tasks that were measured together."""
        return sorted({(row.kind, row.task) for row in self.training})

    def apps_of(self, kind: str) -> list[str]:
        """The apps that were measured on a kind of device."""
        return sorted({row.app for row in self.apps if row.kind == kind})

    def training_of(self, kind: str, task: str) -> list[TrainingRow]:
        """The rows of a pair."""
        return [row for row in self.training if (row.kind, row.task) == (kind, task)]

    def app_rows_of(self, kind: str, app: str) -> list[AppRow]:
        """The rows of an app on a kind of device."""
        return [row for row in self.apps if (row.kind, row.app) == (kind, app)]


def joined(profiles: Sequence[Profile]) -> Profile:
    """The rows of several sweeps, of one device each or of the same ones; their points stay apart."""
    training: list[TrainingRow] = []
    apps: list[AppRow] = []
    shift = 0
    for one in profiles:
        training += [replace(row, point=row.point + shift) for row in one.training]
        apps += [replace(row, point=row.point + shift) for row in one.apps]
        shift = 1 + max([*(row.point for row in training), *(row.point for row in apps)], default=-1)
    return Profile(training=tuple(training), apps=tuple(apps))


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    task: str
    function: str
    choice: Choice


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rows: str  # a digest of the rows that the choices were made for
    choices: list[_Entry]


def save(profile: Profile, folder: Path) -> None:
    """Write a profile; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    training, apps = written(TrainingRow, profile.training), written(AppRow, profile.apps)
    _write_whole(folder / _TRAINING, training.encode())
    _write_whole(folder / _APPS, apps.encode())
    entries = [_Entry(*key, choice) for key, choice in sorted(profile.choices.items())]
    text = msgspec.json.encode(_File(_digest(training, apps), entries))
    _write_whole(folder / _CHOICES, msgspec.json.format(text, indent=2) + b"\n")


def load(folder: Path) -> Profile:
    """Read a profile. Choices made for other rows than those beside them are left out: fit again."""
    training, apps = _text(folder / _TRAINING), _text(folder / _APPS)
    kept = _choices(folder / _CHOICES)
    current = kept is not None and kept.rows == _digest(training, apps)
    return Profile(
        training=read(TrainingRow, training, folder / _TRAINING),
        apps=read(AppRow, apps, folder / _APPS),
        choices={Key(e.kind, e.task, e.function): e.choice for e in kept.choices} if kept and current else {},
    )


def _choices(path: Path) -> _File | None:
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a file of choices: {error}", file=path, remedy=_AGAIN) from error
    for entry in found.choices:
        _check(entry, path)
    return found


def _check(entry: _Entry, path: Path) -> None:
    """Only what a search could have chosen."""
    recipe = entry.choice.recipe
    family = FAMILIES.get(recipe.family)
    if family is None or not set(recipe.settings) == set(family.space):
        raise InputError(f"unknown family or settings for {entry.function!r}", file=path, remedy=_AGAIN)
    if any(recipe.settings[name] not in values for name, values in family.space.items()):
        raise InputError(f"settings out of range for {entry.function!r}", file=path, remedy=_AGAIN)
    if not app_of(entry.function) and entry.function not in TRAINING:
        raise InputError(f"unknown function {entry.function!r}", file=path, remedy=_AGAIN)
    if not set(recipe.columns) <= set(function(entry.function).columns):
        raise InputError(f"unknown columns for {entry.function!r}", file=path, remedy=_AGAIN)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=path, remedy="give the folder of a profile") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError("not text in UTF-8", file=path, line=line, remedy="restore the file from a copy") from error
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy="check the path") from error


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(content)
    os.replace(draft, path)
