"""What was fetched, on disk: one file per block, written whole or not at all.

A file is a head and the bytes as they arrived; whether they are what they should be is for the reader to check. No file
is flushed to the disk: after a power cut one may be spoiled, and is fetched again.
"""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path
from urllib.parse import quote

import numpy as np

from littoral.learning.blocks import LARGEST_BYTES, Array

_LENGTH = struct.Struct("<I")
_log = logging.getLogger(__name__)


class Shelf:
    """Files of one edition in a folder that nobody else writes to; without a folder, a shelf that stays empty."""

    def __init__(self, folder: Path | None, edition: str) -> None:
        self._folder = folder / quote(f"edition-{edition}", safe="") if folder else None
        self._warned = False

    def open(self) -> None:
        """Make the folder, and remove what a killed process left half written."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for draft in self._folder.glob("*.draft"):
                draft.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s cannot be used (%s): all will be fetched again after a restart", self._folder, error)
            self._folder = None

    def keep(self, name: str, head: bytes, content: Array) -> None:
        """Write a file; on a full disk the caller simply has it in memory only."""
        if self._folder is None:
            return
        path = self._folder / _file(name)
        draft = path.with_suffix(".draft")
        try:
            with draft.open("wb") as file:
                file.writelines([_LENGTH.pack(len(head)), head, content.data])
            os.replace(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            if not self._warned:
                _log.warning("%s cannot be written (%s): it will be fetched again after a restart", path, error)
            self._warned = True

    def find(self, name: str) -> tuple[bytes, Array] | None:
        """Head and content of a file; None when it is not there or no such file."""
        if self._folder is None:
            return None
        try:
            raw = np.fromfile(self._folder / _file(name), dtype=np.uint8, count=LARGEST_BYTES)
        except OSError:
            return None
        if len(raw) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack(raw[: _LENGTH.size].tobytes())[0]
        return (raw[_LENGTH.size : end].tobytes(), raw[end:]) if end <= len(raw) else None


def _file(name: str) -> str:
    return f"{quote(name, safe='')}.block"
