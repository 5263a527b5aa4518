"""Connections that came to nothing: strangers that say no word, speak another language, or break off.

libzmq drops them by itself after three seconds; here they are noticed, with the address they came from. The one thread
of a context tells of a failure and of the end of that connection in a row, so the two belong together.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

from littoral.worlds.wire.refusals import Refusals
from littoral.worlds.wire.tap import Tap, monitor

_FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
_EVENTS = _FAILED | zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_BROKEN_OFF = {errno.EPIPE, errno.ECONNRESET}


class Handshakes:
    """Watches a listening socket and notes every connection that ended without a valid greeting."""

    def __init__(self, server: zmq.Socket[bytes], refusals: Refusals) -> None:
        self._refusals = refusals
        self._strangers: dict[int, str] = {}  # by file descriptor: where connections came from that have not greeted
        self._failure: str | None = None
        self._excused = 0  # connections the doorkeeper has already told about, still to end
        self._monitor = Tap(monitor(server, _EVENTS), self._on_event)

    def greeted(self, descriptor: int) -> None:
        """This connection is a peer's."""
        self._strangers.pop(descriptor, None)

    def _on_event(self, frames: Sequence[zmq.Frame]) -> None:
        event = parse_monitor_message([frame.bytes for frame in frames])
        value = int(event["value"])
        match event["event"]:
            case zmq.EVENT_ACCEPTED:
                self._strangers[value] = _address(value)
            case zmq.EVENT_DISCONNECTED:
                self._ended(value)
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._excused += 1
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL if value not in _BROKEN_OFF:
                self._failure = "silent handshake"
            case _:
                self._failure = "handshake"

    def _ended(self, descriptor: int) -> None:
        failure, self._failure = self._failure, None
        address = self._strangers.pop(descriptor, None)
        if failure is None and address is not None:
            if self._excused:
                self._excused -= 1
                return
            failure = "handshake"
        if failure is not None:
            self._refusals.note(address or "?", failure)

    def close(self) -> None:
        """Stop watching, after the socket that was watched is closed."""
        self._monitor.close()


def _address(descriptor: int) -> str:
    """Where a connection comes from, for the report only; it may be over already."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            return str(connection.getpeername()[0])
    except (OSError, IndexError):
        return "?"
