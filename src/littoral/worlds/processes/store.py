"""A data store at work: it answers wants with blocks of shards and with the model everyone begins with.

A store remembers nothing about those who ask: a want says all that is needed to answer it, so that a store which
was killed and started again serves on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from littoral.learning.blocks import Array, Encoder, Header, as_bytes, checksum
from littoral.learning.cutting import block_count
from littoral.learning.task import Dataset
from littoral.worlds.node import Message

Send: TypeAlias = Callable[[str, Message], Awaitable[None]]
_MOST_SAMPLES = 1 << 20  # in a block


class WantBlocks(Message, frozen=True):
    """Send me these blocks of a shard, in this order, cut ``per_block`` samples long; ``edition`` is part of names."""

    edition: str
    origin: str
    per_block: int
    numbers: tuple[int, ...]


class Block(Message, frozen=True):
    """One block of a shard; ``vector`` is its bytes."""

    origin: str
    number: int
    header: Header
    vector: Any


class NoSuchBlock(Message, frozen=True):
    """These cannot be sent, now or later."""

    origin: str
    numbers: tuple[int, ...]
    reason: str


class WantModel(Message, frozen=True):
    """Send me the model everyone begins with."""


class BaseModel(Message, frozen=True):
    """The model everyone begins with, as one flat vector."""

    checksum: bytes
    vector: Any


KINDS: tuple[type[Message], ...] = (WantBlocks, Block, NoSuchBlock, WantModel, BaseModel)
MODEL_NAME = "model"


def block_name(edition: str, origin: str, per_block: int, number: int) -> str:
    """What a block is called; its checksum depends on it."""
    return f"{edition}/{origin}/{per_block}/{number}"


class StoreDesk:
    """Serves some shards of a data set: ``indices`` says which samples each shard holds, in its base order.

    ``take`` may be called for several messages at a time; whoever is slow keeps only itself waiting. A block that is
    wanted again before it was sent is sent once.
    """

    def __init__(self, dataset: Dataset, indices: Mapping[str, Array], initial_vector: Any, send: Send) -> None:
        self._dataset, self._send = dataset, send
        vector = as_bytes(initial_vector).copy()  # what is being sent must not change
        self._model = BaseModel(checksum(MODEL_NAME, vector), vector.view(np.float32))
        self._indices = {name: torch.from_numpy(np.array(index, dtype=np.int64)) for name, index in indices.items()}
        self._encoder = Encoder()
        self._due: set[tuple[str, str]] = set()  # who is to get which block
        self.bytes_sent = 0

    async def take(self, sender: str, message: Message) -> None:
        """Answer a want, in full; anything else is not for a store."""
        match message:
            case WantBlocks():
                await self._serve(sender, message)
            case WantModel():
                await self._post(sender, self._model)

    async def _serve(self, sender: str, want: WantBlocks) -> None:
        names = {number: block_name(want.edition, want.origin, want.per_block, number) for number in want.numbers}
        if refusal := self._refusal(want):
            await self._post(sender, refusal)
            names = {number: name for number, name in names.items() if number not in refusal.numbers}
        fresh = {number: name for number, name in names.items() if (sender, name) not in self._due}
        due = {(sender, name) for name in fresh.values()}
        self._due |= due
        try:
            for number, name in fresh.items():
                await self._post(sender, await asyncio.to_thread(self._block, name, want, number))
                self._due.discard((sender, name))
        finally:
            self._due -= due

    def _refusal(self, want: WantBlocks) -> NoSuchBlock | None:
        index = self._indices.get(want.origin)
        if index is None:
            return NoSuchBlock(want.origin, want.numbers, "this store has no such shard")
        if not 0 < want.per_block <= _MOST_SAMPLES:
            return NoSuchBlock(want.origin, want.numbers, f"blocks of {want.per_block} samples are not made")
        count = block_count(len(index), want.per_block)
        wrong = tuple(number for number in want.numbers if not 0 <= number < count)
        return NoSuchBlock(want.origin, wrong, f"the shard has {count} blocks") if wrong else None

    def _block(self, name: str, want: WantBlocks, number: int) -> Block:
        rows = self._indices[want.origin][number * want.per_block : (number + 1) * want.per_block]
        x, y = self._dataset.train_x.index_select(0, rows), self._dataset.train_y.index_select(0, rows)
        return Block(want.origin, number, *self._encoder.encode(name, x, y))

    async def _post(self, target: str, message: Message) -> None:
        self.bytes_sent += message.size
        await self._send(target, message)
