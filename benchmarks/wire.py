"""The wire beside a bare TCP socket and a bare CURVE socket: rate, overtaking, memory; two processes, interleaved.

    python benchmarks/wire.py [--repeats 5] [--megabytes 8] [--count 40]

measures over loopback. Over a link of the lab, each role is started in its own namespace:

    python benchmarks/wire.py --sender-in "ip netns exec n1" --sender-host 10.0.0.1 \
        --receiver-in "ip netns exec n2" --receiver-host 10.0.0.2 --count 10

A role (``python benchmarks/wire.py role``) reads its keys and then one order per line from its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shlex
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import zmq

from littoral.worlds.node import Message
from littoral.worlds.wire.endpoint import Endpoint, Peer
from littoral.worlds.wire.frames import Codec, Priority
from littoral.worlds.wire.keys import KeyPair, new_keys


class Bulk(Message, frozen=True):
    """A vector."""

    vector: Any


class Urgent(Message, frozen=True):
    """A few bytes that should not wait."""

    number: int


class Role:
    """One end of the measured link; carries out one order after another."""

    def __init__(self, name: str, keys: KeyPair | None) -> None:
        self.endpoint, self.keys = Endpoint(name, keys, Codec([Bulk, Urgent])), keys
        self.listener: socket.socket | None = None
        self.vector = np.zeros(0, np.float32)

    async def open(self, host: str) -> str:
        self.listener = socket.create_server((host, 0))
        return await self.endpoint.open(host)

    async def meet(self, name: str, address: str, public: str) -> None:
        self.endpoint.meet(Peer(name, address, public.encode()))

    async def tcp_port(self) -> int:
        assert self.listener is not None
        return int(self.listener.getsockname()[1])

    async def tcp_send(self, host: str, port: int, size: int, count: int) -> float:
        data = memoryview(self._vector(size)).cast("B")
        with socket.create_connection((host, port)) as connection:
            began = time.monotonic()
            for _ in range(count):
                connection.sendall(data)
        return began

    async def tcp_receive(self, size: int, count: int) -> float:
        assert self.listener is not None
        connection, _ = self.listener.accept()
        buffer = memoryview(bytearray(size))
        with connection:
            for _ in range(count):
                view = buffer
                while view:
                    view = view[connection.recv_into(view) :]
        return time.monotonic()

    async def curve_send(self, address: str, public: str, size: int, count: int) -> float:
        vector = self._vector(size)
        with self._curve(zmq.DEALER) as bare:
            bare.curve_serverkey = public.encode()
            bare.connect(address)
            began = time.monotonic()
            for _ in range(count):
                bare.send(vector, copy=False)
            bare.recv()
        return began

    async def curve_bind(self, host: str) -> str:
        self.bare = self._curve(zmq.ROUTER)
        self.bare.curve_server = True
        return f"tcp://{host}:{self.bare.bind_to_random_port(f'tcp://{host}')}"

    async def curve_receive(self, count: int) -> float:
        with self.bare as bare:
            for _ in range(count):
                route, _ = bare.recv_multipart(copy=False)
            arrived = time.monotonic()
            bare.send_multipart([route, b"done"])
        return arrived

    def _curve(self, kind: int) -> zmq.Socket[bytes]:
        assert self.keys is not None
        bare = zmq.Context.instance().socket(kind)
        bare.hwm, bare.linger = 3, 1000
        bare.curve_publickey, bare.curve_secretkey = self.keys.public, self.keys.secret
        return bare

    async def send(self, size: int, count: int) -> float:
        vector, began = self._vector(size), time.monotonic()
        for _ in range(count):
            await self.endpoint.send("receiver", Bulk(vector))
        await self.endpoint.flush(600)
        return began

    async def receive(self, count: int) -> float:
        for _ in range(count):
            (await self.endpoint.receive()).release()
        return time.monotonic()

    async def overtake(self, size: int, every_s: float, count: int) -> int:
        """One large vector, and meanwhile small messages; gives how many of those left before the vector had."""
        await self.endpoint.send("receiver", Bulk(self._vector(size)))
        for number in range(count):
            await asyncio.sleep(every_s)
            if self.endpoint.traffic()["receiver"].queued_bytes == 0:
                return number
            await self.endpoint.send("receiver", Urgent(number), priority=Priority.CONTROL)
        return count

    async def late_by(self) -> list[float]:
        """Until the vector is here: how long each small message took. Both processes read the same clock."""
        late = []
        while True:
            arrival = await self.endpoint.receive()
            arrival.release()
            if isinstance(arrival.message, Bulk):
                return late
            late.append(arrival.arrived_at - arrival.sent_at)

    async def flood(self, size: int, seconds: float) -> int:
        """Send to a receiver that does not read, until nothing moves; gives how many vectors were taken."""
        vector, count = self._vector(size), 0
        try:
            while True:
                async with asyncio.timeout(seconds):
                    await self.endpoint.send("receiver", Bulk(vector.copy()))
                count += 1
        except TimeoutError:
            return count

    async def traffic(self) -> dict[str, Any]:
        link = next(iter(self.endpoint.traffic().values()))
        return {name: getattr(link, name) for name in link.__slots__}

    async def peak_bytes(self) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    async def close(self) -> None:
        await self.endpoint.close()
        if self.listener is not None:
            self.listener.close()

    def _vector(self, size: int) -> np.ndarray[Any, Any]:
        if self.vector.nbytes != size:
            self.vector = np.random.default_rng(1).random(size // 4, np.float32)
        return self.vector


async def play(name: str) -> None:
    """Read keys and orders, line by line, from the standard input; answer each on the standard output."""
    secret = json.loads(sys.stdin.readline())
    role = Role(name, secret and KeyPair(secret["public"].encode(), secret["secret"].encode()))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order, arguments = json.loads(line)
        print(json.dumps(await getattr(role, order)(**arguments)), flush=True)
    await role.close()


class Remote:
    """A role in a process of its own."""

    def __init__(self, name: str, inside: str, host: str, keys: KeyPair | None) -> None:
        self.name, self.host, self.keys = name, host, keys
        command = [*shlex.split(inside), sys.executable, __file__, "role", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._write(keys and {"public": keys.public.decode(), "secret": keys.secret.decode()})
        self.address = self.do("open", host=host)

    def _write(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def begin(self, order: str, **arguments: Any) -> Callable[[], Any]:
        """Give an order; the result is a call that waits for its answer."""
        self._write([order, arguments])
        assert self.process.stdout is not None
        stdout = self.process.stdout
        return lambda: json.loads(stdout.readline())

    def do(self, order: str, **arguments: Any) -> Any:
        return self.begin(order, **arguments)()

    def meet(self, other: Remote) -> None:
        public = other.keys.public.decode() if other.keys else ""
        self.do("meet", name=other.name, address=other.address, public=public)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Pair:
    """Two roles that know each other."""

    def __init__(self, options: argparse.Namespace, encrypted: bool) -> None:
        keys = (new_keys(), new_keys()) if encrypted else (None, None)
        self.sender = Remote("sender", options.sender_in, options.sender_host, keys[0])
        self.receiver = Remote("receiver", options.receiver_in, options.receiver_host, keys[1])
        self.sender.meet(self.receiver)
        self.receiver.meet(self.sender)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *exc: object) -> None:
        self.sender.close()
        self.receiver.close()

    def wire(self, size: int, count: int) -> float:
        """Bytes per second through the endpoints."""
        arrived = self.receiver.begin("receive", count=count)
        began = self.sender.begin("send", size=size, count=count)
        return size * count / (arrived() - began())

    def tcp(self, size: int, count: int) -> float:
        """Bytes per second through one bare connection."""
        port = self.receiver.do("tcp_port")
        arrived = self.receiver.begin("tcp_receive", size=size, count=count)
        began = self.sender.begin("tcp_send", host=self.receiver.host, port=port, size=size, count=count)
        return size * count / (arrived() - began())

    def curve(self, size: int, count: int) -> float:
        """Bytes per second through one bare encrypted socket."""
        assert self.receiver.keys is not None
        address, public = self.receiver.do("curve_bind", host=self.receiver.host), self.receiver.keys.public.decode()
        arrived = self.receiver.begin("curve_receive", count=count)
        began = self.sender.begin("curve_send", address=address, public=public, size=size, count=count)
        return size * count / (arrived() - began())

    def overtaking(self, size: int) -> list[float]:
        """Seconds that control messages took while a large vector was on its way."""
        late = self.receiver.begin("late_by")
        count = self.sender.do("overtake", size=size, every_s=0.1 if self.slow else 0.005, count=50)
        return late()[:count]

    @property
    def slow(self) -> bool:
        return (self.sender.do("traffic")["rate_bytes_per_s"] or 0) < 50e6


def rates(options: argparse.Namespace) -> None:
    size = int(options.megabytes * 1e6) // 4 * 4
    with Pair(options, False) as plain, Pair(options, True) as secret:
        ways = {
            "bare TCP": plain.tcp,
            "wire, plain": plain.wire,
            "bare CURVE": secret.curve,
            "wire, encrypted": secret.wire,
        }
        samples: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():
            way(size, max(3, options.count // 4))
        for _ in range(options.repeats):
            for name, way in ways.items():
                samples[name].append(way(size, options.count))
        late = secret.overtaking(80_000_000)
        traffic = secret.sender.do("traffic")
    print(f"{options.megabytes:g} MB vectors, {options.count} each time, {options.repeats} times in turn")
    print(f"{'':<18}{'MB/s':>8}{'least':>8}{'most':>8}{'of TCP':>8}")
    for name, values in samples.items():
        shares = [value / bare for value, bare in zip(values, samples["bare TCP"], strict=True)]
        print(
            f"{name:<18}{statistics.median(values) / 1e6:8.1f}{min(values) / 1e6:8.1f}{max(values) / 1e6:8.1f}"
            f"{statistics.median(shares):8.1%}"
        )
    print(f"encrypted link: rate {traffic['rate_bytes_per_s'] / 1e6:.1f} MB/s, ", end="")
    print(f"round trip {1e3 * traffic['round_trip_s']:.2f} ms")
    if late:
        print(f"{len(late)} control messages overtook 80 MB: median {1e3 * statistics.median(late):.1f} ms, ", end="")
        print(f"longest {1e3 * max(late):.1f} ms")


def memory(options: argparse.Namespace) -> None:
    size = int(options.megabytes * 1e6) // 4 * 4
    with Pair(options, True) as pair:
        before = [role.do("peak_bytes") for role in (pair.sender, pair.receiver)]
        taken = pair.sender.do("flood", size=size, seconds=2.0)
        after = [role.do("peak_bytes") for role in (pair.sender, pair.receiver)]
    print(f"receiver stalls: the sender could queue {taken} vectors ({taken * size / 1e6:.0f} MB), then waited")
    for name, was, peak in zip(("sender", "receiver"), before, after, strict=True):
        print(f"  {name:<9} peak {peak / 1e6:6.0f} MB, {(peak - was) / 1e6:6.0f} MB more than idle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=8.0)
    parser.add_argument("--count", type=int, default=40, help="vectors per measurement")
    for role in ("sender", "receiver"):
        parser.add_argument(f"--{role}-in", default="", help="command that runs another inside a namespace")
        parser.add_argument(f"--{role}-host", default="127.0.0.1")
    options = parser.parse_args()
    rates(options)
    memory(options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["role"]:
        asyncio.run(play(sys.argv[2]))
    else:
        main()
