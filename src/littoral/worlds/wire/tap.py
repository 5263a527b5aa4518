"""A ZeroMQ socket on the asyncio loop, as callbacks: no task, no thread, nothing to cancel.

ZeroMQ's file descriptor tells of news once, and any call on the socket may swallow that; so after every turn the
socket itself is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import zmq

_IN, _OUT = int(zmq.POLLIN), int(zmq.POLLOUT)  # plain numbers: these are asked for every message
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
        """Something was sent, or may have arrived unheard: look soon."""
        if self._soon is None and not self.socket.closed:
            self._soon = self._loop.call_soon(self._wake)

    @property
    def writable(self) -> bool:
        """Whether a message may be sent without waiting. To ask may swallow the news of one that has arrived."""
        events = int(self.socket.EVENTS)
        if events & _IN:
            self.poke()
        return bool(events & _OUT)

    def _wake(self) -> None:
        self._soon = None
        try:
            self._turn()
        finally:
            if not self.socket.closed and int(self.socket.EVENTS) & _IN:
                self.poke()

    def _turn(self) -> None:
        for _ in range(_TURN):
            if self.socket.closed:
                return
            try:
                frames: Any = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            self._take(frames)
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
