"""A backup of a data folder in one file, also while a manager serves it.

The database is copied first; then come the files that the copy refers to: weights, folders of runs, training sets of
updates under way, and strikes. Weights never change, and exist before the database speaks of them. Of a run that is
at work the checkpoint is read before the journal, which then tells at least as much. Left out are ``client.json``, for
it holds a token, and ``datasets`` unless they are asked for.
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

import littoral
from littoral.errors import InputError
from littoral.manager.archive import FORMAT, MANIFEST, Entry, Manifest
from littoral.manager.database import FILE
from littoral.rundir import CHECKPOINT
from littoral.tasks.stored import sync_folder

_ATTEMPTS = 3  # a model may be deleted between the copy and its weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A backup that was written."""

    archive: Path
    files: int
    size: int

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "archive": str(self.archive)}


class _Gone(Exception):
    """A file that the copy of the database refers to was removed meanwhile."""


def default_name() -> str:
    """By the moment."""
    return time.strftime("littoral-%Y%m%d-%H%M%S.tar.gz")


def make_backup(data: Path, out: Path, *, datasets: bool = False) -> Made:
    """Write ``out``: whole when this returns, and not there if it raises. Only its owner can read it."""
    if not (data / FILE).exists():
        raise InputError("there is no manager's data here", file=data, remedy="name its folder with --data")
    if out.exists():
        raise InputError("there is such a file already", file=out, remedy="choose another name with --out")
    for attempt in range(_ATTEMPTS):
        try:
            return _write(data, out, datasets)
        except _Gone as gone:
            if attempt + 1 == _ATTEMPTS:
                remedy = "check the folder; a model without its weights can be deleted"
                raise InputError(f"{gone} is missing, which the database refers to", file=data, remedy=remedy) from gone
    raise AssertionError("unreachable")


def _write(data: Path, out: Path, datasets: bool) -> Made:
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".littoral-backup-") as drafts:
        draft, copy = Path(drafts) / "archive", Path(drafts) / FILE
        _copy_database(data / FILE, copy)
        with draft.open("xb") as file:  # in a folder that nobody else can enter
            os.fchmod(file.fileno(), 0o600)
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as tar:
                files = _pack(tar, data, copy, datasets)
            file.flush()
            os.fsync(file.fileno())
        size = draft.stat().st_size
        os.replace(draft, out)
    sync_folder(out.parent)
    return Made(archive=out, files=len(files), size=size)


def _copy_database(source: Path, target: Path) -> None:
    """All of it at one moment, whoever writes; read only, so that an older manager's tables stay as they are."""
    try:
        origin = sqlite3.connect(f"file:{quote(str(source.resolve()))}?mode=ro", uri=True, timeout=30.0)
        copied = sqlite3.connect(target)
        try:
            origin.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file
        finally:
            origin.close()
            copied.close()
    except sqlite3.Error as error:
        raise InputError(f"the database cannot be copied: {error}", file=source, remedy="check the disk") from error


def _pack(tar: tarfile.TarFile, data: Path, copy: Path, datasets: bool) -> dict[str, Entry]:
    files = {FILE: _add(tar, copy, FILE)}
    for name, needed in _wanted(data, copy, datasets):
        try:
            files[name] = _add(tar, data / name, name)
        except FileNotFoundError as error:
            if needed:
                raise _Gone(name) from error
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    manifest = Manifest(
        format=FORMAT, littoral=littoral.__version__, made=made, folder=str(data.resolve()), files=files
    )
    content = msgspec.json.encode(manifest)
    info = tarfile.TarInfo(MANIFEST)
    info.size, info.mtime = len(content), int(time.time())
    tar.addfile(info, io.BytesIO(content))
    return files


def _add(tar: tarfile.TarFile, path: Path, name: str) -> Entry:
    """A file as long as it is now: what is appended meanwhile is left out."""
    with path.open("rb") as file:
        info = tarfile.TarInfo(name)
        status = os.fstat(file.fileno())
        info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), 0o600
        hashed = _Hashed(file)
        tar.addfile(info, hashed)
        return Entry(info.size, hashed.digest)


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._hash.update(content)
        return content

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _wanted(data: Path, copy: Path, datasets: bool) -> Iterator[tuple[str, bool]]:
    """Names of files, and whether the database needs them."""
    connection = sqlite3.connect(copy)
    try:
        weights = connection.execute("SELECT DISTINCT model, file FROM versions ORDER BY 1, 2").fetchall()
        runs = connection.execute("SELECT number FROM runs ORDER BY number").fetchall()
        updates = connection.execute("SELECT number FROM updates WHERE ended IS NULL").fetchall()
    finally:
        connection.close()
    yield from ((f"weights/{model}/{file}", True) for model, file in weights)
    yield from ((f"runs/{name}", False) for name in (".strikes.json", ".reference.json"))
    folders = [*(f"runs/{number}" for (number,) in runs), *(f"updates/update-{number}" for (number,) in updates)]
    for folder in [*folders, *(["datasets"] if datasets else [])]:
        yield from ((name, False) for name in _files(data, folder))


def _files(data: Path, folder: str) -> list[str]:
    """Plain files below a folder, the checkpoint first; no locks, no drafts, no links."""
    found = [
        path
        for path in sorted((data / folder).rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix not in (".lock", ".tmp")
    ]
    found.sort(key=lambda path: path.name != CHECKPOINT)
    return [path.relative_to(data).as_posix() for path in found]
