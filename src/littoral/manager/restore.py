"""A backup becomes a data folder: all of it, once every file proved to be what was packed, or nothing at all.

Everything is unpacked and checked beside the new folder, which then appears by one renaming.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from littoral.errors import InputError
from littoral.manager.archive import FORMAT, MANIFEST, Entry, Manifest, is_safe
from littoral.manager.database import FILE
from littoral.tasks.stored import sync_folder

_CHUNK = 1 << 20
_REMEDY = "use another backup; nothing was restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came back; ``made`` is when it was packed."""

    data: Path
    files: int
    made: str
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "data": str(self.data)}


def restore_backup(archive: Path, data: Path) -> Restored:
    """Make ``data`` what a backup holds; it must not exist, or be empty."""
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        remedy = "give a new folder with --data, or move this one away"
        raise InputError("the folder is not empty", file=data, remedy=remedy)
    data.absolute().parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=data.absolute().parent, prefix=".littoral-restore-"))
    try:
        with _complaints(archive):
            manifest = _unpack(archive, place)
        _check_database(archive, place)
        _appear(place, data)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Restored(data=data, files=len(manifest.files), made=manifest.made, notes=_notes(manifest, data))


@contextmanager
def _complaints(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise _damaged(archive, f"the archive is damaged: {error}") from error
    except OSError as error:
        raise InputError(f"cannot unpack: {error.strerror or error}", file=archive, remedy=_REMEDY) from error


def _unpack(archive: Path, place: Path) -> Manifest:
    """Write every file; the manifest, which must fit them all."""
    found: dict[str, Entry] = {}
    manifest: Manifest | None = None
    with gzip.open(archive) as content, tarfile.open(fileobj=content, mode="r|") as tar:
        for member in tar:
            if manifest is not None or not member.isreg() or member.name in found:
                raise _damaged(archive, f"{member.name[:200]!r} has no place in a backup")
            if member.name == MANIFEST:
                manifest = _manifest(archive, tar, member)
            elif is_safe(member.name):
                found[member.name] = _write(tar, member, place / member.name)
            else:
                raise _damaged(archive, f"{member.name[:200]!r} leads out of the data folder")
        while content.read(_CHUNK):
            pass  # to its end, where gzip compares its own checksum: of headers and padding, too
    if manifest is None:
        raise _damaged(archive, "it has no manifest: it was cut short, or is no backup")
    wrong = sorted(name for name in found.keys() | manifest.files.keys() if found.get(name) != manifest.files.get(name))
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise _damaged(archive, f"{wrong[0]!r} is not what was packed{more}")
    return manifest


def _manifest(archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Manifest:
    file = tar.extractfile(member)
    assert file is not None
    try:
        manifest = msgspec.json.decode(file.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise _damaged(archive, f"its manifest is not one: {error}") from error
    if manifest.format != FORMAT:
        remedy = "restore it with the release that made it, or a newer one"
        raise InputError(f"a backup of format {manifest.format}, not {FORMAT}", file=archive, remedy=remedy)
    return manifest


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> Entry:
    source, hashed, size = tar.extractfile(member), hashlib.sha256(), 0
    assert source is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    os.utime(path, (member.mtime, member.mtime))
    return Entry(size, hashed.hexdigest())


def _check_database(archive: Path, place: Path) -> None:
    """That it is whole, and has the weights it speaks of."""
    try:
        connection = sqlite3.connect(f"file:{place / FILE}?mode=ro", uri=True)
        try:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            weights = connection.execute("SELECT DISTINCT model, file FROM versions").fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _damaged(archive, f"its database cannot be read: {error}") from error
    missing = [f"{model}/{file}" for model, file in weights if not (place / "weights" / model / file).exists()]
    if verdict != "ok" or missing:
        found = f"the weights {missing[0]} are missing" if missing else f"its database is damaged: {verdict}"
        raise _damaged(archive, found)


def _appear(place: Path, data: Path) -> None:
    for folder in [*(path for path in place.rglob("*") if path.is_dir()), place]:
        sync_folder(folder)
    os.chmod(place, 0o700)
    try:
        os.rename(place, data)  # fails unless it is new or empty
    except OSError as error:
        raise InputError(f"cannot become the data folder: {error.strerror}", file=data, remedy=_REMEDY) from error
    sync_folder(data.absolute().parent)


def _notes(manifest: Manifest, data: Path) -> list[str]:
    notes = ["tokens are valid as before; their secrets are not in a backup, so make one if none is at hand"]
    if not any(name.startswith("datasets/") for name in manifest.files):
        notes.append(f"no data sets are in it: jobs that name one find it once it is in {data / 'datasets'}")
    return notes


def _damaged(archive: Path, found: str) -> InputError:
    return InputError(found, file=archive, remedy=_REMEDY)
