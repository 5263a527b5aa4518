"""Readers of labelled images: IDX files, gzipped or not, and npz archives; nothing is ever unpickled.

Every reader returns what the file holds, as uint8 and unscaled; a task scales it.
"""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from littoral.errors import InputError

Bytes: TypeAlias = NDArray[np.uint8]
_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)
_IMAGES, _LABELS = 2051, 2049  # an IDX magic number: 0x08 for uint8, then the number of dimensions


def read_idx(images: Path, labels: Path) -> tuple[Bytes, Bytes]:
    """Images ``(n, rows, columns)`` and labels ``(n,)`` from a pair of IDX files; ``.gz`` may be left out."""
    pictures, marks = _read(images, _IMAGES), _read(labels, _LABELS)
    _check_pair(labels, len(pictures), len(marks))
    return pictures, marks


def count_idx(images: Path) -> int:
    """How many images an IDX file announces; reads its header only."""
    path = _existing(images)
    with _open(path) as file:
        return _dimensions(file, path, _IMAGES)[0]


def read_npz(path: Path) -> tuple[Bytes, Bytes]:
    """``images`` (uint8, n x height x width x channels) and ``labels`` (n,) of an npz archive."""
    images, labels = _member(path, "images", 4), _member(path, "labels", 1)
    _check_pair(path, len(images), len(labels))
    return images, labels


def count_npz(path: Path) -> int:
    """How many labels an npz archive holds; its images stay unread."""
    return len(_member(path, "labels", 1))


def _read(path: Path, magic: int) -> Bytes:
    path = _existing(path)
    with _open(path) as file:
        shape = _dimensions(file, path, magic)
        body = file.read(math.prod(shape) + 1)  # one more, so that a longer file is noticed
    if len(body) != math.prod(shape):
        more = "more" if len(body) > math.prod(shape) else f"only {len(body)}"
        raise InputError(
            f"the header announces {math.prod(shape)} bytes of data, the file holds {more}",
            file=path,
            remedy="fetch it again",
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _dimensions(file: IO[bytes], path: Path, magic: int) -> tuple[int, ...]:
    rank = magic & 0xFF
    header = file.read(4 + 4 * rank)
    if len(header) < 4 + 4 * rank:
        raise InputError("the file is too short for an IDX header", file=path, remedy="fetch it again")
    found, *shape = struct.unpack(f">{1 + rank}I", header)
    if found != magic:
        kind = "images" if magic == _IMAGES else "labels"
        raise InputError(f"magic number {found}, expected {magic}", file=path, remedy=f"name an IDX file of {kind}")
    return tuple(shape)


def _existing(path: Path) -> Path:
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    raise InputError("no such file, nor one ending in .gz", file=path, remedy="check the task's folder")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except _DAMAGE as error:
        raise InputError(f"the file is damaged ({error})", file=path, remedy="fetch it again") from error


def _member(path: Path, name: str, rank: int) -> Bytes:
    if not path.is_file():
        raise InputError("no such file", file=path, remedy="check the task's folder")
    try:
        # Opened here: given a path, numpy leaves a file that is no archive open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            array = archive[name]
    except KeyError as error:
        raise InputError(f"no array {name!r}", file=path, remedy="it must hold 'images' and 'labels'") from error
    except (*_DAMAGE, ValueError, TypeError, AttributeError) as error:  # a foreign file fails in many ways
        raise InputError(f"not a readable npz archive ({error})", file=path, remedy="make it again") from error
    if array.dtype != np.uint8 or array.ndim != rank:
        raise InputError(
            f"{name!r} is {array.dtype} of shape {array.shape}",
            file=path,
            remedy=f"store it as uint8 with {rank} dimensions",
        )
    return np.asarray(array, dtype=np.uint8)


def _check_pair(path: Path, images: int, labels: int) -> None:
    if images != labels:
        raise InputError(f"{labels} labels for {images} images", file=path, remedy="give one label per image")
