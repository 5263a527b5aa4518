"""A ZeroMQ socket on the asyncio loop, as callbacks: no task, no thread, nothing to cancel.

ZeroMQ's file descriptor tells of news once, and any call on the socket may swallow that; so after every turn the
socket itself is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import zmq
import zmq.backend

# Plain numbers and bare functions: these are called for every message, and pyzmq's comforts cost more than the rest.
_IN, _OUT, _EVENTS = int(zmq.POLLIN), int(zmq.POLLOUT), int(zmq.EVENTS)
_DONT_WAIT, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_get: Any = zmq.backend.Socket.get
_send: Any = zmq.backend.Socket.send
_recv: Any = zmq.backend.Socket.recv
COPY_BYTES = 256 * 1024  # frames up to this are copied, larger ones lent
_TURN = 64  # messages taken before others on the loop get their turn


def monitor(socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
    """A socket that tells of what happens to the connections of another.

    libzmq's own thread waits, for good, when it has an event to tell and this socket is full or gone. So it is never
    full, and must outlive the other: close the other first.
    """
    address = f"inproc://monitor-{int(socket.FD)}"
    socket.monitor(address, events)
    listener: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
    listener.rcvhwm = 0
    listener.connect(address)
    return listener


class Tap:
    """Hands every message that arrives to ``take``, and calls ``after`` once per turn, also when one may send again."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        take: Callable[[Sequence[zmq.Frame]], None],
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.socket = socket
        self._take, self._after = take, after
        self._loop = asyncio.get_running_loop()
        self._fd: int = socket.FD
        self._soon: asyncio.Handle | None = None
        self._loop.add_reader(self._fd, self._wake)
        self.poke()

    def poke(self) -> None:
        """Something may have arrived unheard: look soon."""
        if self._soon is None and not self.socket.closed:
            self._soon = self._loop.call_soon(self._wake)

    @property
    def writable(self) -> bool:
        """Whether a message may be sent without waiting."""
        return bool(self._listen() & _OUT)

    def _listen(self) -> int:
        """What the socket is ready for. Whoever asks, or sends, may have swallowed the news of a message: look soon."""
        events: int = _get(self.socket, _EVENTS)
        if events & _IN:
            self.poke()
        return events

    def send(self, frames: Sequence[bytes | memoryview]) -> None:
        """Send one message of several frames; raises zmq.Again when that would wait."""
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            # Lending a frame has its price too: another thread hears when it may be given back.
            _send(self.socket, frame, _DONT_WAIT if index == last else _MORE, len(frame) <= COPY_BYTES)
        self._listen()

    def _wake(self) -> None:
        """Take what is there. Who sends or asks afterwards looks again itself, so once nothing is left is enough."""
        self._soon = None
        try:
            self._turn()
        except BaseException:
            self.poke()  # a message that could not be taken must not hide those behind it
            raise

    def _turn(self) -> None:
        for _ in range(_TURN):
            if self.socket.closed:
                return
            if not _get(self.socket, _EVENTS) & _IN:
                break
            frames = [_recv(self.socket, _DONT_WAIT, False)]
            while frames[-1].more:
                frames.append(_recv(self.socket, _DONT_WAIT, False))
            self._take(frames)
        else:
            self.poke()
        if not self.socket.closed:
            self._after()

    def close(self, linger_ms: int = 0) -> None:
        """Leave the loop and close the socket; what was sent has this long to get out."""
        if self.socket.closed:
            return
        self._loop.remove_reader(self._fd)
        if self._soon is not None:
            self._soon.cancel()
        self.socket.disable_monitor()  # before its listener goes
        self.socket.close(linger=linger_ms)
