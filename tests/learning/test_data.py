"""Readers name the file that is wrong, and never unpickle."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from littoral.errors import InputError
from littoral.learning.data import count_idx, count_npz, read_idx, read_npz

IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
LABELS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


def idx(array: np.ndarray, magic: int) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "images").write_bytes(idx(IMAGES, 2051))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx(LABELS, 2049)))
    return tmp_path / "images", tmp_path / "labels"


def test_plain_and_gzipped_files_are_read(pair: tuple[Path, Path]) -> None:
    images, labels = read_idx(*pair)
    assert np.array_equal(images, IMAGES) and np.array_equal(labels, LABELS)
    assert count_idx(pair[0]) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(IMAGES, 2051)[:-1], "only 59"),
        (idx(IMAGES, 2051) + b"x", "more"),
        (idx(IMAGES, 2051)[:9], "too short"),
        (idx(IMAGES, 2050), "magic number 2050, expected 2051"),
        (idx(IMAGES[:4], 2051), "5 labels for 4 images"),
    ],
)
def test_a_wrong_idx_file_is_named(pair: tuple[Path, Path], content: bytes, message: str) -> None:
    pair[0].write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_idx(*pair)
    assert str(pair[0].parent) in str(caught.value)


def test_a_missing_or_damaged_file_is_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such file"):
        read_idx(tmp_path / "nowhere", pair[1])
    packed = gzip.compress(idx(LABELS, 2049))
    for damaged in (packed[:-12], b"not gzip at all", packed[:-6] + b"xxxxxx"):
        (tmp_path / "labels.gz").write_bytes(damaged)
        with pytest.raises(InputError, match=r"labels\.gz: the file is damaged"):
            read_idx(*pair)
    (tmp_path / "images.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match="damaged"):
        count_idx(tmp_path / "images.gz")


def test_npz_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=IMAGES[..., None], labels=LABELS)
    images, labels = read_npz(path)
    assert np.array_equal(images, IMAGES[..., None]) and np.array_equal(labels, LABELS)
    assert count_npz(path) == 5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES[..., None]}, "no array 'labels'"),
        ({"images": IMAGES, "labels": LABELS}, "4 dimensions"),
        ({"images": IMAGES[..., None].astype(float), "labels": LABELS}, "uint8"),
        ({"images": IMAGES[..., None], "labels": LABELS[:3]}, "3 labels for 5 images"),
        ({"images": np.array([len], dtype=object), "labels": LABELS}, "not a readable npz"),
    ],
)
def test_a_wrong_archive_is_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message) as caught:
        read_npz(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY", b"\x80\x04pickle"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable npz"):
        read_npz(path)
