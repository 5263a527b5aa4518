"""A worker's side of a data store: it asks for the blocks it needs, keeps them, and makes batches of them.

Whoever waits for blocks also asks for them, a few at a time, and asks again when nothing was heard for long: requests
get lost with stores that crash and links that are cut. So there is nothing to start and nothing to stop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import torch
from torch import Tensor

from littoral.errors import RunFailed
from littoral.learning.blocks import BadBlock, as_bytes
from littoral.learning.learner import Orders
from littoral.learning.leases import Span
from littoral.planning.plan import Plan
from littoral.worlds.node import Message, PeerLost
from littoral.worlds.processes.stock import MODEL, Key, Stock
from littoral.worlds.processes.store import BaseModel, Block, NoSuchBlock, Send, WantBlocks, WantModel
from littoral.worlds.wire.link import PeerGone

Progress: TypeAlias = Callable[[int, int], None]  # blocks here, blocks in all
_WINDOW = 16  # blocks asked for at a time: about 4 MB, enough to fill 1 Gbit/s over 30 ms
_FIRST_WINDOW = 2  # while it is not known how fast blocks come: all that a needless reminder has sent twice
_MOST_SPOILED = 5  # times that one block may arrive damaged
_MOST_PATIENCE_S = 30.0
_log = logging.getLogger(__name__)


def edition(task: str, options: Mapping[str, Any], plan: Plan, seed: int) -> str:
    """A short name for one cut of one data set: blocks of another are never taken for its own."""
    shards = [(worker.name, worker.shard, worker.store) for worker in plan.workers]
    facts = msgspec.json.encode((task, dict(options), shards, plan.split, plan.alpha, seed), order="sorted")
    return hashlib.blake2b(facts, digest_size=8).hexdigest()


class Patience:
    """How long silence is normal: three times the last gap between arrivals, and longer after each vain reminder.

    A fixed time would be too short for a slow link, where every block would be sent twice, or too long for a fast one.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = self.seconds = least_s
        self._last = self._since = 0.0

    def begin(self, now: float) -> None:
        """Something was asked for while nothing else was awaited."""
        self._last = self._since = now

    def heard(self, now: float) -> None:
        """Something arrived."""
        self.seconds = min(max(self._least_s, 3 * (now - self._last)), _MOST_PATIENCE_S)
        self._last = self._since = now

    def reminded(self, now: float) -> None:
        """What had been asked for was asked for again; it may be the first request that will be answered."""
        self.seconds = min(2 * self.seconds, _MOST_PATIENCE_S)
        self._since = now

    def left(self, now: float) -> float:
        """Seconds until silence has lasted too long."""
        return self._since + self.seconds - now


class Pantry:
    """Samples fetched from the store, in memory and, given a folder, on disk. ``sizes`` are the shards of all workers.

    ``send`` may raise PeerGone, PeerLost or an OSError when the store is not there: that is a lost request.
    ``fetched`` is told bytes and starting time (by ``clock``) of each fetch that had something to get.
    """

    def __init__(
        self, folder: Path | None, sizes: Mapping[str, int], send: Send, store: str, *, seed: int, per_block: int,
        edition: str = "", patience_s: float = 2.0, clock: Callable[[], float] = lambda: 0.0,
        fetched: Callable[[int, float], None] = lambda size, start: None,
    ) -> None:  # fmt: skip
        self._send, self._store, self._edition, self._per_block = send, store, edition, per_block
        self._clock, self._fetched = clock, fetched
        self._orders = Orders(sizes, seed)
        self._stock = Stock(folder, sizes, per_block, edition)
        self._asked: set[Key] = set()
        self._refused: dict[Key, str] = {}
        self._damaged: Counter[Key] = Counter()
        self._patience, self._window = Patience(patience_s), _FIRST_WINDOW
        self._news = asyncio.Event()
        self._untold = 0  # bytes that no fetch has accounted for yet
        self.bytes_received = 0
        self.reminders = 0  # times that requests were taken for lost

    # -- the worker's side --------------------------------------------------------------------------------------

    def batch(self, spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some spans, which must have been ensured."""
        parts = [self._stock.shards[span.origin].rows(self._orders.positions(span)) for span in spans]
        if len(parts) == 1:
            return parts[0]
        return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])

    async def ensure(self, spans: Sequence[Span]) -> None:
        """Wait until all samples of some spans are here."""
        keys = {key: None for span in spans for key in self._keys(span)}
        if keys:
            await self._fetch(keys)

    async def prefetch(self, origin: str, progress: Progress = lambda have, total: None) -> None:
        """Wait until a whole shard is here."""
        keys = [(origin, number) for number in range(self._stock.shards[origin].total)]
        await self._fetch(keys, lambda: progress(*self.held(origin)))

    async def model(self, length: int) -> Tensor:
        """The model everyone begins with; raises RunFailed unless it has ``length`` elements."""
        await self._fetch([MODEL])
        model = self._stock.model
        if model is None or len(model) != length:
            found = 0 if model is None else len(model)
            raise RunFailed(f"the model of {self._store} has {found} elements, that of the task {length}")
        return model.clone()

    def held(self, origin: str) -> tuple[int, int]:
        """Blocks of a shard that are here, and in all."""
        shard = self._stock.shards[origin]
        return shard.count, shard.total

    @property
    def spoiled(self) -> int:
        """Blocks that arrived, or lay on disk, damaged."""
        return self._damaged.total() + self._stock.spoiled

    # -- the wire's side ----------------------------------------------------------------------------------------

    async def take(self, sender: str, message: Message) -> None:
        """Something arrived from the store; what comes from others is not for a pantry."""
        if sender != self._store:
            return
        match message:
            case Block(origin=origin, number=number, header=header, vector=vector):
                self._accept((origin, number), msgspec.msgpack.encode(header), vector)
            case BaseModel(checksum=checksum, vector=vector):
                self._accept(MODEL, checksum, vector)
            case NoSuchBlock(origin=origin, numbers=numbers, reason=reason):
                self._refused |= {(origin, number): reason for number in numbers}
        self._stir()

    def resume(self) -> None:
        """The store is back: whatever is still awaited is asked for again at once."""
        self._asked.clear()
        self._stir()

    def _accept(self, key: Key, head: bytes, vector: Any) -> None:
        self._patience.heard(asyncio.get_running_loop().time())
        self._window = min(self._window + 1, _WINDOW)
        self._asked.discard(key)
        try:
            content = as_bytes(vector)
            self.bytes_received += len(content)
            self._untold += len(content)
            if not self._stock.has(key):
                self._stock.put(key, head, content)
        except BadBlock as error:
            self._damaged[key] += 1
            _log.warning("%s sent a spoiled block, asking again: %s", self._store, error)
            if self._damaged[key] >= _MOST_SPOILED:
                self._refused[key] = f"it came spoiled {_MOST_SPOILED} times"

    # -- fetching -----------------------------------------------------------------------------------------------

    async def _fetch(self, keys: Iterable[Key], progress: Callable[[], None] = lambda: None) -> None:
        start, todo = self._clock(), deque(keys)
        for origin in dict.fromkeys(origin for origin, _ in todo):
            await self._stock.open(origin)
        while True:
            news = self._news
            while todo and self._stock.has(todo[0]):
                todo.popleft()
            progress()
            if not todo:
                break
            await self._ask(list(islice((key for key in todo if not self._stock.has(key)), self._window)))
            await self._listen(news)
        size, self._untold = self._untold, 0
        if size:
            self._fetched(size, start)

    async def _ask(self, keys: Sequence[Key]) -> None:
        """Ask for those of some blocks that are not on their way, or are on it for too long."""
        now = asyncio.get_running_loop().time()
        for key in keys:
            if key in self._refused:
                raise RunFailed(f"{self._store} cannot send block {key[1]} of {key[0]}: {self._refused[key]}")
        if not self._asked:
            self._patience.begin(now)
        elif self._patience.left(now) <= 0:
            self._asked.clear()
            self._patience.reminded(now)
            self._window = _FIRST_WINDOW
            self.reminders += 1
        fresh = [key for key in keys[: self._window] if key not in self._asked]
        self._asked.update(fresh)
        sent = False
        try:
            with suppress(PeerLost, PeerGone, OSError):
                for origin, group in groupby(fresh, key=itemgetter(0)):
                    await self._send(self._store, self._want(origin, tuple(number for _, number in group)))
                sent = True
        finally:
            if not sent:  # the store is not there, or whoever waited here does so no longer
                self._asked.difference_update(fresh)

    def _want(self, origin: str, numbers: tuple[int, ...]) -> Message:
        if origin == MODEL[0]:
            return WantModel()
        return WantBlocks(self._edition, origin, self._per_block, numbers)

    async def _listen(self, news: asyncio.Event) -> None:
        """Wait for something to happen, as long as patience lasts."""
        left = self._patience.left(asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left)):
                await news.wait()

    def _stir(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _keys(self, span: Span) -> list[Key]:
        shard = self._stock.shards[span.origin]
        if shard.complete:
            return []
        return [(span.origin, number) for number in shard.blocks_of(self._orders.positions(span))]
