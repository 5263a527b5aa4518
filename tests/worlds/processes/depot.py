"""What the tests of stores share: a plan, a data set, and a store and a worker's pantry with a wire between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import torch

from littoral.learning.learner import Shards
from littoral.learning.leases import Span
from littoral.learning.mathematics import shard_indices
from littoral.learning.task import load_task
from littoral.planning.plan import Plan, Prediction, Worker
from littoral.worlds.node import Message
from littoral.worlds.processes.pantry import Pantry
from littoral.worlds.processes.store import Block, Send, StoreDesk

torch.set_num_threads(1)
TASK = load_task("littoral.tasks.digits", {})
NOTHING = Prediction(time_s=0, epoch_s=0, bytes_sent=0, wan_bytes=0, cost_usd=0)
SHARDS = {"w-1": 800, "w-2": 600, "w-3": 37}
PLAN = Plan(
    planner="test",
    strategy="allreduce",
    workers=tuple(
        Worker(name=name, device=name, shard=size, batch=32, samples_per_s=1, store="store")
        for name, size in SHARDS.items()
    ),
    epochs=2,
    predicted=NOTHING,
)
SEED = 5
PER_BLOCK = 50
SPANS = [Span(1, "w-1", 90, 130), Span(0, "w-2", 0, 600), Span(0, "w-3", 30, 37)]
MODEL = torch.arange(1000, dtype=torch.float32)


@dataclass
class Wire:
    """Two queues between a store and a worker, and hands that meddle with what passes."""

    meddle: Callable[[Message], Message | None] = lambda message: message
    cut: bool = False
    wants: list[Message] = field(default_factory=list)
    blocks: int = 0
    to_store: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    to_worker: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    async def ask(self, target: str, message: Message) -> None:
        assert target == "store"
        self.wants.append(message)
        if not self.cut:
            self.to_store.put_nowait(message)

    async def answer(self, target: str, message: Message) -> None:
        assert target == "w-1"
        await asyncio.sleep(0)
        changed = self.meddle(message)
        if changed is not None and not self.cut:
            self.blocks += isinstance(message, Block)
            self.to_worker.put_nowait(changed)

    @asynccontextmanager
    async def joining(self, desk: StoreDesk | None, pantry: Pantry) -> AsyncIterator[None]:
        """Messages flow; without a desk nobody reads the worker's."""

        async def serve() -> None:
            while True:
                message = await self.to_store.get()
                if desk is not None:
                    await desk.take("w-1", message)

        async def deliver() -> None:
            while True:
                await pantry.take("store", await self.to_worker.get())

        tasks = [asyncio.create_task(serve()), asyncio.create_task(deliver())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            gathered = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in gathered), gathered


def open_desk(send: Send) -> StoreDesk:
    """The store of the whole data set."""
    data = TASK.data()
    return StoreDesk(data, shard_indices(PLAN, SEED, data), MODEL, send)


def open_pantry(ask: Send, folder: Path | None, sizes: Mapping[str, int] = SHARDS, **options: Any) -> Pantry:
    """A worker's; it asks for nothing twice unless a test wants it."""
    settings = {"per_block": PER_BLOCK, "patience_s": 1000.0} | options
    return Pantry(folder, sizes, ask, "store", seed=SEED, **settings)


@asynccontextmanager
async def supplied(
    folder: Path | None, meddle: Callable[[Message], Message | None] = lambda message: message, **options: Any
) -> AsyncIterator[tuple[Pantry, Wire]]:
    """A pantry with a store at the other end of its wire; both may be looked at afterwards."""
    wire = Wire(meddle)
    pantry = open_pantry(wire.ask, folder, **options)
    async with wire.joining(open_desk(wire.answer), pantry):
        yield pantry, wire


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine, and must end."""

    @wraps(test)
    def told(*arguments: Any, **fixtures: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await test(*arguments, **fixtures)

        asyncio.run(bounded())

    return told


async def until(fact: Callable[[], object], pause_s: float = 0.0) -> None:
    """Let the others go on until something is so."""
    while not fact():
        await asyncio.sleep(pause_s)


def assert_true(pantry: Pantry, spans: Sequence[Span]) -> None:
    """What the pantry gives is what the data set has, bit for bit."""
    data = TASK.data()
    expected = Shards(data, shard_indices(PLAN, SEED, data), SEED).batch(spans)
    for mine, theirs in zip(pantry.batch(spans), expected, strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)
