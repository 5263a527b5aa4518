"""Who may come in: CURVE on every socket, and a doorkeeper that knows the keys of those who were met.

A connection's key is proven by CURVE and comes with every frame as its User-Id, put there by our own side; what a frame
says about its sender is never asked. The key, not the name, is the User-Id, because a connection may outlive what its
name stands for: a forgotten key is a stranger again from that moment on.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import zmq
from zmq.utils import z85

from littoral.worlds.wire.keys import KeyPair
from littoral.worlds.wire.refusals import Refusals
from littoral.worlds.wire.tap import Tap
from littoral.worlds.wire.window import MOST_CHUNK

Context = zmq.Context[zmq.Socket[bytes]]
_LARGEST_FRAME = MOST_CHUNK + MOST_CHUNK // 8 + 65536
_SOCKET_OPTIONS = {
    # Windows and credits bound the bytes under way. A full receive queue would also stop heartbeats, and libzmq 4.3
    # aborts the process when a peer disconnects in that state and a heartbeat is due (stream_engine_base, !_io_error).
    zmq.RCVHWM: 0,
    zmq.SNDHWM: 1000,
    zmq.LINGER: 0,
    zmq.MAXMSGSIZE: _LARGEST_FRAME,
    zmq.HEARTBEAT_IVL: 500,
    zmq.HEARTBEAT_TIMEOUT: 1500,
    zmq.HEARTBEAT_TTL: 1500,
    zmq.HANDSHAKE_IVL: 3000,
    zmq.RECONNECT_IVL: 100,
    zmq.CONNECT_TIMEOUT: 500,
}


def server_socket(context: Context, keys: KeyPair | None) -> zmq.Socket[bytes]:
    """A ROUTER that only takes connections encrypted to our key."""
    socket = context.socket(zmq.ROUTER)
    _configure(socket)
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    return socket


def client_socket(context: Context, keys: KeyPair | None, server: bytes, label: bytes) -> zmq.Socket[bytes]:
    """A DEALER that only talks to the holder of the key ``server``."""
    socket = context.socket(zmq.DEALER)
    _configure(socket)
    if keys is None:
        socket.routing_id = label
    else:
        socket.curve_serverkey = server
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    return socket


def _configure(socket: zmq.Socket[bytes]) -> None:
    for option, value in _SOCKET_OPTIONS.items():
        socket.set(option, value)


class Gate:
    """The doorkeeper: answers libzmq's question (ZAP, RFC 27) whether the holder of a key may connect."""

    def __init__(self, context: Context, known: Container[bytes], refusals: Refusals) -> None:
        self._known, self._refusals = known, refusals
        socket = context.socket(zmq.REP)
        socket.linger = 0
        socket.bind("inproc://zeromq.zap.01")
        self._tap = Tap(socket, self._answer)

    def _answer(self, frames: Sequence[zmq.Frame]) -> None:
        version, request, _, address, _, mechanism, *credentials = [frame.bytes for frame in frames]
        key = z85.encode(credentials[0]) if mechanism == b"CURVE" and credentials else b""
        welcome = key in self._known
        if not welcome:
            self._refusals.note(address.decode(errors="replace"), "unknown key")
        status = [b"200", b"OK", key] if welcome else [b"400", b"unknown key", b""]
        self._tap.socket.send_multipart([version, request, *status, b""])
        self._tap.poke()

    def close(self) -> None:
        """Let nobody in any more."""
        self._tap.close()
