"""Predictions and samples at a fixed rate beside a running update: is any lost, and how long does each take?

    python benchmarks/load.py [--seconds 60] [--predictions 200] [--samples 2000] [--batch 20]

Loopback, two client processes, open loop: each request has its time, and its latency counts from then on, whether or
not a connection was free. First without an update, then beside one that trains in two processes on the same machine.
The store keeps the newest ``--keep`` samples, so the file must stop growing. Every sample has an id; in the end
the store must have received as many as were acknowledged, and must hold the newest of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from littoral.manager.address import Address
from littoral.manager.parcels import Head, pack_samples
from served import BINARY, CONTINUUM, Served, Stream, client_of, model, ok

CONNECTIONS = 64  # of each client
_GRACE_S = 30.0  # for answers after the last request


# -- a client ---------------------------------------------------------------------------------------------------------


@dataclass
class Sender:
    """Sends requests at their times over connections that stay open."""

    url: str
    token: str
    path: str
    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)

    async def send(self, bodies: list[bytes], rate: float, begin: float) -> None:
        """All of them, one every ``1 / rate`` seconds from ``begin`` on (seconds since 1970)."""
        waiting: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(CONNECTIONS)]
        for index, body in enumerate(bodies):
            intended = begin + index / rate
            await asyncio.sleep(max(0.0, intended - time.time()))
            waiting.put_nowait((intended, body))
        for _ in workers:
            waiting.put_nowait(None)
        _, late = await asyncio.wait(workers, timeout=_GRACE_S)
        for worker in late:
            worker.cancel()
        self.statuses["no answer"] += sum(not worker.done() for worker in late)

    async def _work(self, waiting: asyncio.Queue[tuple[float, bytes] | None]) -> None:
        place = urlsplit(self.url)
        reader = writer = None
        while (item := await waiting.get()) is not None:
            intended, body = item
            try:
                if writer is None or reader is None:
                    reader, writer = await asyncio.open_connection(place.hostname, place.port)
                writer.write(self._head(len(body)) + body)
                status, answer = await _answer(reader)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.statuses[type(error).__name__] += 1
                writer = None
                continue
            self.latencies_s.append(time.time() - intended)
            self.statuses[str(status)] += 1
            if status == 201:
                self.acknowledged += json.loads(answer)["ids"]
        if writer is not None:
            writer.close()

    def _head(self, length: int) -> bytes:
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
        ).encode()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split(b" ")[1]), await reader.readexactly(length)


def client(order: dict[str, Any]) -> None:
    """The part of a client process: reads its order, says when it is ready, sends, prints what came of it."""
    stream, bodies = Stream(order["seed"]), []
    for number in range(order["count"]):
        x, y = stream.take(order["batch"])
        ids = [f"{order['run']}-{number * order['batch'] + i}" for i in range(order["batch"])]
        bodies.append(x.tobytes() if order["predict"] else pack_samples(Head(ids=ids, actual=y, predicted=y), x))
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    sender = Sender(order["url"], order["token"], order["path"])
    asyncio.run(sender.send(bodies, order["rate"], begin))
    times = psutil.Process().cpu_times()
    told = {
        "latencies_s": sender.latencies_s, "statuses": sender.statuses, "acknowledged": sender.acknowledged,
        "cpu_s": times.user + times.system,
    }  # fmt: skip
    print(json.dumps(told))


# -- a measurement ----------------------------------------------------------------------------------------------------


def measure(served: Served, address: Address, asked: argparse.Namespace, name: str, *, update: bool) -> dict[str, Any]:
    """Send for so many seconds and see what became of it."""
    per_s = asked.samples / asked.batch
    orders = [
        {"path": "/models/digits/predict", "rate": asked.predictions, "batch": 1, "predict": True},
        {"path": "/stores/digits/samples", "rate": per_s, "batch": asked.batch, "predict": False},
    ]
    running = _start_update(address) if update else None
    before = _received(served.data)
    clients = []
    for order in orders:
        order |= {
            "url": address.url, "token": address.token, "seed": 1, "run": name,
            "count": round(order["rate"] * asked.seconds),
        }  # fmt: skip
        command = [sys.executable, __file__, "--client", json.dumps(order)]
        clients.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for one in clients:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    cpu, begin = _cpu(served), time.time() + 0.5
    for one in clients:
        assert one.stdin is not None
        one.stdin.write(f"{begin}\n")
        one.stdin.flush()
    sizes = _watch(served, asked.seconds)
    spent = {who: after - cpu.get(who, 0.0) for who, after in _cpu(served).items()}
    told = [json.loads(one.communicate(timeout=120)[0]) for one in clients]
    result = {
        "predictions": _figures(told[0]), "samples": _figures(told[1]),
        "CPU of the manager, %": round(100 * spent["manager"] / asked.seconds),
        "CPU of the run, %": round(100 * spent["run"] / asked.seconds),
        "CPU of the clients, %": round(100 * sum(one["cpu_s"] for one in told) / asked.seconds),
        "file, MB": sizes, **_lost(served.data, told[1]["acknowledged"], before),
    }  # fmt: skip
    if running is not None:
        result["update"] = _stop_update(address, running)
    return result


def _figures(told: dict[str, Any]) -> dict[str, Any]:
    latencies = sorted(told["latencies_s"]) or [float("nan")]

    def at(share: float) -> float:
        return round(1000 * latencies[min(len(latencies) - 1, int(share * len(latencies)))], 1)

    return {
        "answers": told["statuses"], "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0),
        "mean_ms": round(1000 * statistics.fmean(latencies), 1),
    }  # fmt: skip


def _watch(served: Served, seconds: float) -> list[float]:
    """The size of the database and its log, ten times."""
    sizes = []
    for _ in range(10):
        time.sleep(seconds / 10)
        paths = [served.data / f"littoral.db{end}" for end in ("", "-wal")]
        sizes.append(round(sum(path.stat().st_size for path in paths if path.exists()) / 1e6, 1))
    return sizes


def _cpu(served: Served) -> dict[str, float]:
    manager, *others = served.family()
    spent = {"manager": 0.0, "run": 0.0}
    for process in (manager, *others):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent["manager" if process == manager else "run"] += times.user + times.system
    return spent


def _received(data: Path) -> int:
    connection = sqlite3.connect(data / "littoral.db")
    found = connection.execute("SELECT received FROM stores").fetchone()[0]
    connection.close()
    return int(found)


def _lost(data: Path, acknowledged: list[str], before: int) -> dict[str, Any]:
    """As many as were acknowledged were received, and the newest are there."""
    connection = sqlite3.connect(data / "littoral.db")
    kept = {row[0] for row in connection.execute("SELECT id FROM samples")}
    row = connection.execute("SELECT received, kept, most_samples FROM stores").fetchone()
    connection.close()
    newest = acknowledged[-int(0.9 * row[2]) :]
    return {
        "acknowledged": len(acknowledged), "received": row[0] - before, "kept": row[1],
        "acknowledged and not there": len(set(newest) - kept) + (len(acknowledged) - len(set(acknowledged))),
    }  # fmt: skip


def _start_update(address: Address) -> int:
    with client_of(address) as client:
        number = ok(client.post("/models/digits/update", json={}))["number"]
        while not any(
            run["progress"] and run["progress"]["samples"] for run in ok(client.get("/runs?state=running"))["items"]
        ):
            time.sleep(0.2)
    return int(number)


def _stop_update(address: Address, number: int) -> dict[str, Any]:
    with client_of(address) as client:
        run = ok(client.get("/runs?newest=true"))["items"][0]
        ok(client.post(f"/updates/{number}/give-up"))
    return {"state": run["state"], "epochs": run["progress"]["epochs"], "samples/s": run["progress"]["samples_per_s"]}


def prepare(address: Address, keep: int) -> None:
    """A model with a version to serve, whose updates train until they are given up."""
    from safetensors.torch import save

    from littoral.tasks.digits import Digits

    x, y = Stream(0).take(600)
    with client_of(address) as client:
        ok(client.put("/continuums/bench", json=CONTINUUM))
        ok(
            client.post(
                "/models", json=model("digits", epochs=100_000, world="processes", retention={"most_samples": keep})
            )
        )
        ok(client.post("/stores/digits/samples", content=pack_samples(Head(actual=y), x), headers=BINARY))
        ok(client.post("/models/digits/versions", content=save(dict(Digits().model().state_dict())), headers=BINARY))
        ok(client.post("/models/digits/promote", json={"version": 1, "force": True}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--predictions", type=float, default=200, help="requests per second, one input each")
    parser.add_argument("--samples", type=float, default=2000, help="per second")
    parser.add_argument("--batch", type=int, default=20, help="samples in a request")
    parser.add_argument("--keep", type=int, default=40_000, help="samples that the store keeps")
    parser.add_argument("--only", choices=["alone", "beside"], default=None)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--client", default=None, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        return client(json.loads(asked.client))
    report: dict[str, Any] = {"load": list(psutil.getloadavg())}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        served = Served(folder / "data", folder / "log.txt")
        address = served.start()
        try:
            prepare(address, asked.keep)
            for name, update in (("alone", False), ("beside", True)):
                if asked.only in (None, name):
                    report[name] = measure(served, address, asked, name, update=update)
                    print(json.dumps({name: report[name]}), file=sys.stderr, flush=True)
        finally:
            served.kill(everybody=True)
    print(json.dumps(report, indent=2))
    good = [one for one in (report.get("alone"), report.get("beside")) if one]
    lost = any(one["acknowledged and not there"] or one["received"] != one["acknowledged"] for one in good)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
