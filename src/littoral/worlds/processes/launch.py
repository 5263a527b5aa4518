"""Starts, watches and ends the processes of a run on this machine; nothing of them outlives it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from littoral.worlds.processes.boot import Boot, encode
from littoral.worlds.processes.zygote import Exited, Ready, Signal, Spawn, Spawned, Stream

OnExit = Callable[[str, str], None]  # node ("": the launcher itself), and how it ended


class Launcher(Protocol):
    """Where processes come from."""

    def attach(self, on_exit: OnExit, logs: Path | None) -> None:
        """Serve one run, on the running event loop."""
        ...

    def start(self, node: str, device: str, boot: Boot) -> None:
        """Start the process of a node; an earlier one of that name is killed."""
        ...

    def signal(self, node: str, number: int) -> None:
        """Send a node's process a signal."""
        ...

    async def detach(self) -> None:
        """Kill whatever the run has left, and wait until it is gone."""
        ...


class Forge:
    """A launcher on this machine: forks from a zygote. May serve several runs, one after another."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "littoral.worlds.processes.zygote"],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._stream = Stream(mine, Ready | Spawned | Exited)
        self._numbers = itertools.count(1)
        self._running: dict[int, str] = {}
        self._number_of: dict[str, int] = {}
        self._on_exit: OnExit = lambda node, how: None
        self._logs: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._emptied = asyncio.Event()

    def attach(self, on_exit: OnExit, logs: Path | None) -> None:
        self._on_exit, self._logs = on_exit, logs
        self._emptied = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stream.sock.setblocking(True)
        self._loop.add_reader(self._stream.sock.fileno(), self._read)

    def start(self, node: str, device: str, boot: Boot) -> None:
        self.signal(node, signal.SIGKILL)
        number = next(self._numbers)
        self._running[number], self._number_of[node] = node, number
        self._emptied.clear()
        log = str(self._logs / f"{node}.log") if self._logs else ""
        self._stream.send(Spawn(number, encode(boot), log))

    def signal(self, node: str, number: int) -> None:
        mine = self._number_of.get(node)
        if mine is not None and mine in self._running:
            self._stream.send(Signal(mine, number))

    def _read(self) -> None:
        try:
            for message in self._stream.read():
                if isinstance(message, Exited):
                    self._ended(message)
        except EOFError:
            self._forget_all()

    def _ended(self, message: Exited) -> None:
        node = self._running.pop(message.number, "")
        if not self._running:
            self._emptied.set()
        if node and self._number_of.get(node) == message.number:
            del self._number_of[node]
            self._on_exit(node, _how(message.code))

    def _forget_all(self) -> None:
        """The zygote died, and its children with it."""
        if self._loop is not None:
            self._loop.remove_reader(self._stream.sock.fileno())
        self._running, self._number_of = {}, {}
        self._emptied.set()
        self._on_exit("", "died")

    async def detach(self) -> None:
        self._on_exit = lambda node, how: None
        for number in list(self._running):
            self._stream.send(Signal(number, signal.SIGKILL))
        if self._running:
            await self._emptied.wait()
        if self._loop is not None:
            self._loop.remove_reader(self._stream.sock.fileno())
            self._loop = None

    def close(self) -> None:
        """End the zygote."""
        self._stream.sock.close()
        if not self._running:
            self._process.kill()  # it may still be importing, and has nobody to end
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _how(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return "ended" if code == 0 else f"failed with exit code {code}"
