"""What a message costs the processor at one end of the wire: measured with two processes that send to each other.

seconds(size) = per_message + per_byte * size        fitted over two sizes, processor time of one whole end

Between messages a node computes, in a thread of its own, and finds its caches full of other things afterwards: a
message then costs twice what it costs in a tight loop. So both ends compute here too, and what they compute is
measured without messages and taken off.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any

import msgspec

from littoral.continuum.device import Handling
from littoral.errors import RunFailed
from littoral.worlds.node import Message
from littoral.worlds.wire.endpoint import Endpoint, Peer
from littoral.worlds.wire.frames import Codec
from littoral.worlds.wire.keys import KeyPair, new_keys

SIZES = (40_000, 400_000)
COUNT = 120  # messages each way per size
ROUNDS = 3
STIRRED_BYTES = 8 * 1024**2  # more than a core's own caches hold


class Probe(Message, frozen=True):
    """So many bytes."""

    vector: Any


class _Order(msgspec.Struct):
    name: str
    keys: KeyPair
    peer: str
    public: bytes


def measure_handling() -> Handling:
    """The cost at one end, on one unshared core of this machine."""
    keys = {"a": new_keys(), "b": new_keys()}
    command = [sys.executable, "-m", __name__]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in keys]
    try:
        addresses = []
        for process, (mine, theirs) in zip(processes, (("a", "b"), ("b", "a")), strict=True):
            addresses.append(_ask(process, _Order(mine, keys[mine], theirs, keys[theirs].public)))
        for process, address in zip(processes, reversed(addresses), strict=True):
            assert process.stdin is not None
            process.stdin.write(address.encode() + b"\n")
            process.stdin.flush()
        answers = [msgspec.json.decode(_line(process), type=list[float]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
    small, large = (statistics.mean(costs) for costs in zip(*answers, strict=True))
    per_byte = max(0.0, (large - small) / (SIZES[1] - SIZES[0]))
    return Handling(per_message_s=max(0.0, small - per_byte * SIZES[0]), per_byte_s=per_byte)


def _ask(process: subprocess.Popen[bytes], order: _Order) -> str:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    process.stdin.flush()
    return _line(process).decode().strip()


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RunFailed("what a message costs could not be measured: its probe ended early")
    return line


async def _converse(order: _Order) -> list[float]:
    import numpy as np

    endpoint = Endpoint(order.name, order.keys, Codec([Probe]))
    try:
        print(await endpoint.open(), flush=True)
        loop = asyncio.get_running_loop()
        address = (await loop.run_in_executor(None, sys.stdin.buffer.readline)).decode().strip()
        endpoint.meet(Peer(order.peer, address, order.public))
        stirred = np.zeros(STIRRED_BYTES // 4, np.float32)
        found = []
        for size in SIZES:
            payload = np.ones(size, np.uint8)
            await _exchange(endpoint, order, payload, stirred, 20)
            costs = []
            for _ in range(ROUNDS):
                with_messages = await _processor_s(_exchange(endpoint, order, payload, stirred, COUNT))
                without = await _processor_s(_stir(stirred, COUNT))
                costs.append((with_messages - without) / (2 * COUNT))
            found.append(min(costs))  # the rest is disturbance
        await endpoint.flush(1.0)
        return found
    finally:
        await endpoint.close()


async def _processor_s(work: Coroutine[Any, Any, None]) -> float:
    before = time.process_time()
    await work
    return time.process_time() - before


async def _exchange(endpoint: Endpoint, order: _Order, payload: Any, stirred: Any, count: int) -> None:
    """Compute, send and receive in turn, as nodes do."""
    for _ in range(count):
        await _stir(stirred, 1)
        await endpoint.send(order.peer, Probe(payload))
        (await endpoint.receive()).release()


async def _stir(stirred: Any, count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await loop.run_in_executor(None, stirred.__iadd__, 1.0)


def main() -> None:
    """One end."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Order)
    print(msgspec.json.encode(asyncio.run(_converse(order))).decode(), flush=True)


if __name__ == "__main__":
    main()
