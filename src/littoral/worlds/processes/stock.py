"""What a worker has of its data: in memory to be used, on disk for its next life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor

from littoral.learning.assembly import Assembly
from littoral.learning.blocks import Array, BadBlock, Header, checksum, decode_block
from littoral.worlds.processes.shelf import Shelf
from littoral.worlds.processes.store import MODEL_NAME, block_name

Key: TypeAlias = tuple[str, int]  # origin and number of a block
MODEL: Key = ("", -1)  # the model everyone begins with is fetched and kept like a block
_log = logging.getLogger(__name__)


class Stock:
    """The blocks of every shard, as far as they are here; nothing gets in unchecked, from the wire or from disk."""

    def __init__(self, folder: Path | None, sizes: Mapping[str, int], per_block: int, edition: str) -> None:
        self.shards = {origin: Assembly(size, per_block) for origin, size in sizes.items()}
        self.model: Tensor | None = None
        self.spoiled = 0  # files that were not what they should be
        self._per_block, self._edition = per_block, edition
        self._shelf = Shelf(folder, edition)
        self._opened: set[str] = set()
        self._opening = asyncio.Lock()

    def has(self, key: Key) -> bool:
        """Whether this block is here."""
        if key == MODEL:
            return self.model is not None
        return key[0] in self.shards and self.shards[key[0]].has(key[1])

    def put(self, key: Key, head: bytes, content: Array) -> None:
        """Check and keep what arrived; raises BadBlock."""
        self._check_in(key, head, content)
        self._shelf.keep(_file(key), head, content)

    async def open(self, origin: str) -> None:
        """Look, once, for what an earlier life of this worker has kept."""
        async with self._opening:
            if not self._opened:
                self._shelf.open()
            if origin not in self._opened:
                for key in self._all(origin):
                    self._recall(key)
                    await asyncio.sleep(0)  # a block takes a millisecond or two; others want their turn
                self._opened.add(origin)

    def _all(self, origin: str) -> Iterator[Key]:
        if origin == MODEL[0]:
            return iter([MODEL])
        return ((origin, number) for number in range(self.shards[origin].total))

    def _recall(self, key: Key) -> None:
        found = self._shelf.find(_file(key))
        if found is None or self.has(key):
            return
        try:
            self._check_in(key, *found)
        except BadBlock as error:
            self.spoiled += 1
            _log.warning("a kept block is spoiled and will be fetched again: %s", error)

    def _check_in(self, key: Key, head: bytes, content: Array) -> None:
        if key == MODEL:
            if checksum(MODEL_NAME, content) != head or len(content) % 4:
                raise BadBlock("the model has a wrong checksum")
            self.model = torch.from_numpy(content.view(np.float32).copy())
            return
        origin, number = key
        try:
            header = msgspec.msgpack.decode(head, type=Header)
            shard = self.shards[origin]
        except (msgspec.DecodeError, KeyError) as error:
            raise BadBlock(f"block {number} of {origin}: {error!r}") from error
        shard.put(number, *decode_block(block_name(self._edition, origin, self._per_block, number), header, content))


def _file(key: Key) -> str:
    return MODEL_NAME if key == MODEL else f"{key[0]}/{key[1]}"
