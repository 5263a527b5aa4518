"""The manager killed while samples arrive and updates run: nothing accepted is lost, nothing runs twice.

Twice in the suite; fifty times in the soak.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from freshness import Stream
from given import CONTINUUM
from test_lifecycle_service import BINARY, JOB, MODEL, ok, send

from littoral.manager.manager import Manager
from littoral.manager.parcels import Head, pack_samples
from littoral.manager.tokens import Role

KILLS = 50 if os.environ.get("LITTORAL_SOAK") else 2
SERVE = """
import sys
from pathlib import Path
import uvicorn
from littoral.manager.manager import Manager
from littoral.manager.service import make_app
uvicorn.run(make_app(Manager(Path(sys.argv[1]))), host="127.0.0.1", port=int(sys.argv[2]), log_config=None)
"""
TRAINING = {**MODEL["training"], "job": {**JOB, "target": {"epochs": 20}}}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Killed:
    """A manager in a process of its own, and what it acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manager = Manager(folder)
        with manager.database.write() as connection:
            secret = manager.tokens.create(connection, "tester", Role.OPERATOR).secret
        manager.stop()
        self.headers = {"Authorization": f"Bearer {secret}"}
        self.acknowledged: set[str] = set()
        self.asked: set[int] = set()

    def start(self) -> httpx.Client:
        port = free_port()
        self.process = subprocess.Popen([sys.executable, "-c", SERVE, str(self.folder), str(port)])
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=self.headers, trust_env=False, timeout=60)
        while True:
            try:
                if client.get("/health").status_code == 200:
                    return client
            except httpx.TransportError:
                assert self.process.poll() is None
                time.sleep(0.05)

    def kill(self, client: httpx.Client) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        client.close()

    def busy(self, client: httpx.Client, stream: Stream, until_s: float, turn: int) -> None:
        """Send samples and ask for updates, and note what was acknowledged."""
        batch = 0
        while time.monotonic() < until_s:
            x, y = stream.take(20)
            ids, batch = [f"{turn}-{batch}-{i}" for i in range(20)], batch + 1
            content = pack_samples(Head(ids=list(ids), actual=list(y)), x)
            answer = client.post("/stores/digits/samples", content=content, headers=BINARY)
            self.acknowledged |= set(ok(answer, 201)["ids"])
            wish = client.post("/models/digits/update", json={})
            if wish.status_code == 201:
                self.asked.add(wish.json()["number"])


def everything(client: httpx.Client, path: str) -> list[Any]:
    items, after = [], None
    while True:
        page = ok(client.get(path, params={"limit": 500} | ({"after": after} if after else {})))
        items += page["items"]
        after = page["next"]
        if after is None:
            return items


@pytest.mark.long
def test_killed_at_random_moments(tmp_path: Path) -> None:
    dice, stream, killed = random.Random(7), Stream(), Killed(tmp_path / "data")
    client = killed.start()
    ok(client.put("/continuums/bench", json=CONTINUUM))
    ok(client.post("/models", json={**MODEL, "gate": {"least_samples": 1}, "training": TRAINING}), 201)
    x, y = stream.take(300)
    killed.acknowledged |= set(send(client, x, actual=y)["ids"])
    for turn in range(KILLS):
        killed.busy(client, stream, time.monotonic() + dice.uniform(0.5, 5.0), turn)
        killed.kill(client)
        client = killed.start()
    deadline = time.monotonic() + 90
    while any(update["ended"] is None for update in everything(client, "/models/digits/updates")):
        assert time.monotonic() < deadline, everything(client, "/models/digits/updates")[0]
        time.sleep(0.1)
    updates = {update["number"]: update for update in everything(client, "/models/digits/updates")}
    versions = everything(client, "/models/digits/versions")
    kept = {sample["id"] for sample in everything(client, "/stores/digits/samples")}
    runs = everything(client, "/runs")
    killed.kill(client)
    assert killed.acknowledged <= kept
    assert killed.asked and killed.asked <= set(updates)
    assert {update["state"] for update in updates.values()} <= {"promoted", "refused"}, updates
    assert len(runs) == len(updates) == len(versions)
    assert sorted(version["run"] for version in versions) == sorted(str(run["number"]) for run in runs)
    assert [version["state"] for version in versions].count("current") == 1
