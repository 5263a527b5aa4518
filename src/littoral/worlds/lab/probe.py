"""Measurements inside a lab: goodput, round trips, losses, cuts.

Sockets opened in a namespace stay there, so threads of one process can stand at both ends.
"""

from __future__ import annotations

import math
import os
import socket
import statistics
import struct
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from littoral.worlds.lab.pairs import PROBE_BYTES
from littoral.worlds.lab.places import Place
from littoral.worlds.lab.spaces import inside

DATAGRAM_BYTES = 1472  # fills a packet of 1500
_GAP_S = 0.005  # probes that do not queue behind each other
_PATIENCE_S = 2.0
_LAST = b"last".ljust(PROBE_BYTES)


class Arrivals:
    """When how many bytes of a stream arrived."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._totals: list[int] = [0]

    def add(self, count: int) -> None:
        """More bytes, now."""
        self._totals.append(self._totals[-1] + count)
        self._times.append(time.monotonic())

    def rate(self, since: float, until: float) -> float:
        """Bytes/s between the first and the last arrival of that time; 0 if there were fewer than two."""
        first, last = bisect_left(self._times, since), bisect_right(self._times, until) - 1
        if last <= first:
            return 0.0
        return (self._totals[last + 1] - self._totals[first + 1]) / (self._times[last] - self._times[first])


@contextmanager
def flowing(source: Place, target: Place) -> Iterator[Arrivals]:
    """Meanwhile one TCP connection carries as much as it can; what has arrived."""
    with _socket(target, socket.SOCK_STREAM) as door, _socket(source, socket.SOCK_STREAM) as sender:
        door.bind((target.address, 0))
        door.listen()
        sender.connect(door.getsockname())
        arrivals, ended = Arrivals(), threading.Event()
        with door.accept()[0] as receiver:
            threads = [
                threading.Thread(target=_send, args=(sender, ended)),
                threading.Thread(target=_receive, args=(receiver, arrivals, ended)),
            ]
            for thread in threads:
                thread.start()
            try:
                yield arrivals
            finally:
                ended.set()
                for thread in threads:
                    thread.join()


def goodput(source: Place, target: Place, *, warm_s: float, seconds: float) -> float:
    """Bytes/s that one TCP connection delivers, after ``warm_s`` of slow start."""
    with flowing(source, target) as arrivals:
        time.sleep(warm_s)
        start = time.monotonic()
        time.sleep(seconds)
        return arrivals.rate(start, time.monotonic())


def datagrams(source: Place, target: Place, *, rate: float, count: int) -> tuple[float, float]:
    """Send ``count`` full datagrams at ``rate`` bytes/s: the share lost, and bytes/s received."""
    with _socket(target, socket.SOCK_DGRAM) as receiver, _socket(source, socket.SOCK_DGRAM) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((target.address, 0))
        sender.connect(receiver.getsockname())
        arrivals: list[float] = []
        counter = threading.Thread(target=_count, args=(receiver, arrivals))
        counter.start()
        _send_paced(sender, rate, count)
        counter.join()
    if len(arrivals) < 2:
        return 1.0, 0.0
    return 1.0 - len(arrivals) / count, (len(arrivals) - 1) * DATAGRAM_BYTES / (arrivals[-1] - arrivals[0])


def round_trip(source: Place, target: Place, *, probes: int) -> float:
    """Median seconds of an echo, the probes going out 5 ms apart; infinite if half of them never come back."""
    with echo(source, target) as client:
        spent = inside("", lambda: _probe(client, probes))  # a thread of its own, for its priority
    return statistics.median([*spent, *[math.inf] * (probes - len(spent))])


def _probe(client: socket.socket, probes: int) -> list[float]:
    _hurry()
    spent: list[float] = []
    start, sent = time.perf_counter(), 0
    while len(spent) < probes and (wait := _next_probe(start, sent, probes)) > 0:
        if sent < probes and time.perf_counter() - start >= sent * _GAP_S:
            client.send(struct.pack("d8x", time.perf_counter()))
            sent += 1
            continue
        client.settimeout(wait)
        with suppress(TimeoutError):
            then = struct.unpack("d8x", client.recv(64))[0]
            spent.append(time.perf_counter() - then)
    return spent


def _next_probe(start: float, sent: int, probes: int) -> float:
    """Seconds until the next probe is to go out, or until there is no more waiting for the last; at least a little."""
    due = start + sent * _GAP_S + (_PATIENCE_S if sent == probes else 0.0)
    left = due - time.perf_counter()
    return max(left, 1e-4) if sent < probes else left


def ping(client: socket.socket, patience_s: float) -> bool:
    """Whether an echo comes back in time."""
    client.settimeout(patience_s)
    client.send(bytes(PROBE_BYTES))
    try:
        return bool(client.recv(64))
    except TimeoutError:
        return False


@contextmanager
def echo(source: Place, target: Place) -> Iterator[socket.socket]:
    """A socket at ``source`` whose datagrams ``target`` sends back."""
    with _socket(target, socket.SOCK_DGRAM) as mirror, _socket(source, socket.SOCK_DGRAM) as client:
        mirror.bind((target.address, 0))
        client.bind((source.address, 0))
        client.connect(mirror.getsockname())
        thread = threading.Thread(target=_mirror, args=(mirror,))
        thread.start()
        try:
            yield client
        finally:
            with _socket(target, socket.SOCK_DGRAM) as neighbour:  # within the host: never lost
                neighbour.sendto(_LAST, mirror.getsockname())
            thread.join()


def _mirror(mirror: socket.socket) -> None:
    _hurry()
    while (received := mirror.recvfrom(64))[0] != _LAST:
        mirror.sendto(*received)


def _hurry() -> None:
    """Raise the calling thread's priority: a link is measured, not what else this machine does."""
    with suppress(OSError):
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _socket(place: Place, kind: socket.SocketKind) -> socket.socket:
    return inside(place.netns, lambda: socket.socket(socket.AF_INET, kind))


def _send(sender: socket.socket, ended: threading.Event) -> None:
    _hurry()
    data = bytes(1 << 18)
    sender.settimeout(0.1)
    while not ended.is_set():
        with suppress(TimeoutError):
            sender.send(data)


def _receive(receiver: socket.socket, arrivals: Arrivals, ended: threading.Event) -> None:
    _hurry()
    buffer = bytearray(1 << 20)
    receiver.settimeout(0.1)
    while not ended.is_set():
        with suppress(TimeoutError):
            arrivals.add(receiver.recv_into(buffer))


def _send_paced(sender: socket.socket, rate: float, count: int) -> None:
    data, start = bytes(DATAGRAM_BYTES), time.monotonic()
    for number in range(count):
        ahead = start + number * DATAGRAM_BYTES / rate - time.monotonic()
        if ahead > 0.002:
            time.sleep(ahead)
        sender.send(data)


def _count(receiver: socket.socket, arrivals: list[float]) -> None:
    _hurry()
    receiver.settimeout(2.0)
    try:
        while receiver.recv(2048):
            arrivals.append(time.monotonic())
            receiver.settimeout(0.7)
    except TimeoutError:
        return
