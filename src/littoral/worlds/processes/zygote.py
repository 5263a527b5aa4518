"""The process that all node processes are forked from: it has imported everything, so a new node is there at once.

It is asked through a socket and answers there; it starts no thread and computes nothing, which makes forking safe.
When the socket closes (its owner ended, however) it kills its children and ends; when it is killed itself, the kernel
kills them.
"""

from __future__ import annotations

import ctypes
import gc
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct("<I")
_PR_SET_PDEATHSIG = 1


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """Fork a process that runs ``boot``; its prints go to the file ``log``."""

    number: int
    boot: bytes
    log: str


class Signal(msgspec.Struct, frozen=True, tag=True):
    """Send a signal to the process of that number, if it is still there."""

    number: int
    signal: int


class Spawned(msgspec.Struct, frozen=True, tag=True):
    """It runs."""

    number: int
    pid: int


class Exited(msgspec.Struct, frozen=True, tag=True):
    """It ended: ``code`` as in subprocess, negative for a signal."""

    number: int
    code: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported."""


class Stream:
    """Whole messages on a stream socket."""

    def __init__(self, sock: socket.socket, kinds: object) -> None:
        self.sock = sock
        self._decoder = msgspec.msgpack.Decoder(kinds)
        self._buffer = bytearray()

    def send(self, message: msgspec.Struct) -> None:
        raw = msgspec.msgpack.encode(message)
        self.sock.sendall(_LENGTH.pack(len(raw)) + raw)

    def read(self) -> Iterator[object]:
        """What has arrived; raises EOFError when the other side is gone."""
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if len(self._buffer) < _LENGTH.size + length:
                break
            raw = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            yield self._decoder.decode(raw)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Zygote:
    """Forks on request, reaps, reports."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = Stream(sock, Spawn | Signal)
        self._children: dict[int, int] = {}  # pid -> number

    def serve(self) -> None:
        """Until the owner is gone."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._stream.sock, selectors.EVENT_READ)
            selector.register(reading, selectors.EVENT_READ)
            self._tell(Ready())
            while True:
                for key, _ in selector.select():
                    if key.fd == reading:
                        os.read(reading, 4096)
                        self._reap()
                    else:
                        self._obey()

    def _obey(self) -> None:
        try:
            for request in self._stream.read():
                if isinstance(request, Spawn):
                    self._spawn(request)
                elif isinstance(request, Signal):
                    self._signal(request)
        except EOFError:
            self._end()

    def _spawn(self, request: Spawn) -> None:
        pid = os.fork()
        if pid == 0:
            self._be_a_node(request)
        self._children[pid] = request.number
        self._tell(Spawned(request.number, pid))

    def _signal(self, request: Signal) -> None:
        for pid, number in self._children.items():  # not reaped yet, so the pid is still its own
            if number == request.number:
                os.kill(pid, request.signal)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._children.pop(pid)
            self._tell(Exited(number, os.waitstatus_to_exitcode(status)))

    def _tell(self, message: msgspec.Struct) -> None:
        try:
            self._stream.send(message)
        except OSError:  # the owner is gone
            self._end()

    def _end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)
        os._exit(0)

    def _be_a_node(self, request: Spawn) -> None:
        code = 1
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._stream.sock.close()
            log = os.open(request.log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            from littoral.worlds.processes.boot import decode
            from littoral.worlds.processes.process import main

            main(decode(request.boot))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)  # the zygote's own clean-up is not ours to do


def preload() -> None:
    """Import what nodes need, before any of them exists."""
    import torch  # noqa: F401
    import zmq.asyncio  # noqa: F401

    import littoral.learning.learner
    import littoral.learning.mathematics
    import littoral.worlds.processes.process  # noqa: F401


def run() -> None:
    """The zygote's main: its socket is standard input."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    gc.collect()
    gc.freeze()  # a quarter of a million objects that no node's collections need to look at, or to copy
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # so that no node inherits the socket, over which keys travel
    Zygote(control).serve()


if __name__ == "__main__":
    # Under its real name, so that messages decoded here are the ones others import.
    from littoral.worlds.processes.zygote import run as _run

    _run()
