"""Models on their way: asked of a node, gathered part by part; and put into others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from littoral.worlds.node import Message
from littoral.worlds.processes.control import (
    AskState,
    FenceWorker,
    HaltProgram,
    LoadState,
    ProgramHalted,
    StateLoaded,
    StatePart,
    StateTaken,
    WorkerFenced,
)

Send = Callable[[str, Message], Awaitable[None]]


@dataclass
class Taken:
    """A node's state; ``marked`` what the coordinator noted at the instant it is of."""

    rounds: int
    marked: Any
    tensors: dict[str, Any]


@dataclass
class _Request:
    node: str
    future: asyncio.Future[Any]
    mark: Callable[[], Any] = lambda: None
    taken: Taken | None = None
    tensors: dict[str, Any] = field(default_factory=dict)
    complete: bool = False  # all parts are here; they may overtake the word that they were taken


class Conversations:
    """Questions to nodes and their answers. Whoever is lost answers None."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, _Request] = {}
        self._halts: dict[str, asyncio.Future[int | None]] = {}

    async def state(self, node: str, *, whole: bool, mark: Callable[[], Any] = lambda: None) -> Taken | None:
        """A node's vector, or its whole state; ``mark`` is called at the instant it is of, in order with commits."""
        number, request = self._ask(node)
        request.mark = mark
        await self._send(node, AskState(number, whole))
        taken: Taken | None = await request.future
        return taken

    async def load(self, node: str, tensors: dict[str, Any]) -> bool:
        """Put a state into a node; whether it arrived."""
        number, request = self._ask(node)
        names = list(tensors)
        for name in names:
            await self._send(node, LoadState(number, name, name == names[-1], tensors[name]))
        return await request.future is not None

    async def fence(self, node: str, worker: str, below: int) -> bool:
        """Make sure that a node uses no lease of ``worker`` any more."""
        number, request = self._ask(node)
        await self._send(node, FenceWorker(number, worker, below))
        return await request.future is not None

    async def halt(self, node: str, generation: int) -> int | None:
        """Bring a node's program to rest; how many collectives are in its model."""
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._halts[node] = future
        await self._send(node, HaltProgram(generation))
        return await future

    def _ask(self, node: str) -> tuple[int, _Request]:
        number = next(self._numbers)
        request = _Request(node, asyncio.get_running_loop().create_future())
        self._open[number] = request
        return number, request

    def take(self, sender: str, message: Message) -> None:
        """An answer, or part of one."""
        if isinstance(message, ProgramHalted):
            future = self._halts.pop(sender, None)
            if future is not None and not future.done():
                future.set_result(message.rounds)
            return
        number: int = getattr(message, "request", 0)
        request = self._open.get(number)
        if request is None or request.node != sender:
            return
        match message:
            case StateTaken(rounds=rounds):
                request.taken = Taken(rounds, request.mark(), request.tensors)
            case StatePart(name=name, last=last, vector=vector):
                request.tensors[name] = vector
                request.complete = request.complete or last
            case StateLoaded() | WorkerFenced():
                self._close(number, True)
        if request.taken is not None and request.complete:
            self._close(number, request.taken)

    def _close(self, number: int, answer: Any) -> None:
        request = self._open.pop(number, None)
        if request is not None and not request.future.done():
            request.future.set_result(answer)

    def lost(self, node: str) -> None:
        """A node is gone: nobody need wait for its answers."""
        for number in [number for number, request in self._open.items() if request.node == node]:
            self._close(number, None)
        future = self._halts.pop(node, None)
        if future is not None and not future.done():
            future.set_result(None)
