"""The router in Python, for machines without a C compiler: same orders (router.py), same pipes, a tenth of the speed.

A program of its own that imports nothing of Littoral, so that it starts at once. See router.c for the ideas; here every
packet is a single segment, and a pipe hands it on when its last byte is through.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import json
import math
import os
import random
import select
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable

FRAME = 14
LEAST_QUEUE, QUEUE_S = 65536, 0.05
LEAST_SHARE = 20000
OWNER_CHECK_S = 0.5
_TUNSETIFF, _TUN, _NO_PI, _NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


class Route:
    """A way through pipes."""

    def __init__(self, pipes: list[Pipe], latency_s: float, loss: float, target: int) -> None:
        self.pipes, self.latency_s, self.loss, self.target = pipes, latency_s, loss, target


class Pipe:
    """A rate and a queue that everybody who passes shares."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.free_at = 0.0
        self.flows: OrderedDict[bytes, deque[tuple[bytes, Route, int]]] = OrderedDict()  # those with packets waiting
        self.bytes = self.dropped = 0
        self.waking = False

    def put(self, packet: bytes, route: Route, stage: int) -> bool:
        """Queue a packet behind those of its flow, if the flow's share of the queue has room."""
        flow = packet[9:10] + packet[12:24]  # protocol, addresses, ports
        if flow not in self.flows:
            self.flows[flow] = deque()
            self.flows.move_to_end(flow, last=False)
        room = LEAST_QUEUE if math.isinf(self.rate) else max(LEAST_QUEUE, self.rate * QUEUE_S)
        queue = self.flows[flow]
        if len(queue) * 1500 > max(LEAST_SHARE, room / len(self.flows)):
            return False
        queue.append((packet, route, stage))
        return True

    def pick(self) -> tuple[bytes, Route, int]:
        """The next packet: flows take turns."""
        flow, queue = self.flows.popitem(last=False)
        packet = queue.popleft()
        if queue:
            self.flows[flow] = queue
        return packet


class Router:
    """Pipes, hosts and what is due when."""

    def __init__(self) -> None:
        self.pipes: list[Pipe] = []
        self.hosts: dict[int, int] = {}  # their TUN devices
        self.routes: dict[tuple[int, int], Route] = {}
        self.subnet = b""
        self.dice = random.Random(0)
        self.lost = self.unroutable = self._order = 0
        self._due: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []

    def run(self) -> None:
        """Until the orders end."""
        owner = os.getppid()
        os.set_blocking(0, False)
        orders = b""
        while os.getppid() == owner:
            ready, _, _ = select.select([0, *self.hosts.values()], [], [], self._wait_s())
            self._handle_due()
            for number, fd in self.hosts.items():
                if fd in ready:
                    self._read(number, fd)
            if 0 in ready:
                got = os.read(0, 1 << 16)
                if not got:
                    return
                *lines, orders = (orders + got).split(b"\n")
                for line in lines:
                    self._obey(*line.decode().split())

    # -- time ---------------------------------------------------------------------------------------------------------

    def _at(self, when: float, act: Callable[..., None], *arguments: object) -> None:
        self._order += 1
        heapq.heappush(self._due, (when, self._order, act, arguments))

    def _wait_s(self) -> float:
        return min(OWNER_CHECK_S, max(0.0, self._due[0][0] - time.monotonic())) if self._due else OWNER_CHECK_S

    def _handle_due(self) -> None:
        now = time.monotonic() + 2e-5
        while self._due and self._due[0][0] <= now:
            when, _, act, arguments = heapq.heappop(self._due)
            act(when, *arguments)

    # -- packets ------------------------------------------------------------------------------------------------------

    def _read(self, number: int, fd: int) -> None:
        now = time.monotonic()
        for _ in range(32):
            try:
                packet = os.read(fd, 65536)
            except OSError:  # nothing left, or its namespace is gone
                return
            route = self.routes.get((number, packet[19])) if packet[16:19] == self.subnet else None
            if route is None:
                self.unroutable += 1
            else:
                self._enter(now, packet, route, 0)

    def _enter(self, at: float, packet: bytes, route: Route, stage: int) -> None:
        if stage == len(route.pipes):
            if self.dice.random() < route.loss:
                self.lost += 1
            else:
                self._at(at + route.latency_s, self._deliver, packet, route)
            return
        pipe = route.pipes[stage]
        if pipe.rate > 0 and not pipe.flows and pipe.free_at <= at:
            self._serve(at, pipe, packet, route, stage)
        elif pipe.rate > 0 and pipe.put(packet, route, stage):
            self._wake(pipe)
        else:
            pipe.dropped += 1

    def _serve(self, at: float, pipe: Pipe, packet: bytes, route: Route, stage: int) -> None:
        size = len(packet) + FRAME
        pipe.free_at = at + size / pipe.rate
        pipe.bytes += size
        self._at(pipe.free_at, self._enter, packet, route, stage + 1)

    def _wake(self, pipe: Pipe) -> None:
        if not pipe.waking:
            pipe.waking = True
            self._at(pipe.free_at, self._next, pipe)

    def _next(self, at: float, pipe: Pipe) -> None:
        pipe.waking = False
        if pipe.flows:
            self._serve(at, pipe, *pipe.pick())
        if pipe.flows:
            self._wake(pipe)

    def _deliver(self, at: float, packet: bytes, route: Route) -> None:
        with contextlib.suppress(OSError):
            os.write(route.target, packet)

    # -- orders -------------------------------------------------------------------------------------------------------

    def _obey(self, order: str, *words: str) -> None:
        match order, words:
            case "net", [network]:
                self.subnet = bytes(map(int, network.split(".")))
            case "seed", [seed]:
                self.dice.seed(int(seed))
            case "pipe", [rate]:
                self.pipes.append(Pipe(float(rate)))
            case "host", [number, interface, space]:
                self.hosts[int(number)] = _open_tun(interface, space)
            case "route", [source, target, latency_s, loss, pipes]:
                way = [] if pipes == "-" else [self.pipes[int(n)] for n in pipes.split(",")]
                route = Route(way, float(latency_s), float(loss), self.hosts[int(target)])
                self.routes[int(source), int(target)] = route
            case "rate", [pipe, rate]:
                self._set_rate(self.pipes[int(pipe)], float(rate))
                print("ok", flush=True)
            case "stats", []:
                print(json.dumps(self._stats()), flush=True)
            case "ready", []:
                print("ok", flush=True)
            case _:
                raise ValueError(f"unknown order: {order} {words}")

    def _set_rate(self, pipe: Pipe, rate: float) -> None:
        pipe.rate = rate
        if rate <= 0:
            pipe.dropped += sum(map(len, pipe.flows.values()))
            pipe.flows.clear()

    def _stats(self) -> dict[str, object]:
        return {
            "cpu_s": time.process_time(),
            "lost": self.lost,
            "unroutable": self.unroutable,
            "bytes": [pipe.bytes for pipe in self.pipes],
            "dropped": [pipe.dropped for pipe in self.pipes],
        }


def _open_tun(interface: str, space: str) -> int:
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    if space != "-":
        there = os.open(space, os.O_RDONLY)
        _set_space(there)
        os.close(there)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), _TUN | _NO_PI))
    _set_space(home)
    os.close(home)
    return fd


def _set_space(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        Router().run()
    except Exception as error:
        print(f"error {error}", flush=True)
        raise
