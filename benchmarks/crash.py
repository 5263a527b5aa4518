"""The manager killed -9 at random moments, and copies of its folder opened as after a power cut: is anything lost?

    python benchmarks/crash.py [--kills 50] [--seed 0] [--world simulated]
    python benchmarks/crash.py --power-cut 40 --serve-last [--seed 0]

Clients ingest samples, submit jobs, ask for plans and updates, promote and roll back, while a trigger asks for updates,
too. The moment of each kill is chosen by looking: in the middle of ingest, planning, a run or a promotion. Every second
time all processes die at once; else the runs' processes are left to end by themselves. After each restart, everything
that was acknowledged must be there, and what was not answered is asked again with the same key.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from crash_checks import Findings, check, settled
from crash_images import cut
from littoral.manager.address import Address
from littoral.manager.parcels import Head, pack_samples
from served import BINARY, CONTINUUM, JOB, Served, Stream, client_of, model, ok
from watching_states import States

AIMS = ("ingest", "planning", "run", "promotion", "judging")  # judging is the promotion of an update
LATEST_S = {"ingest": 0.005, "planning": 0.1, "run": 0.5, "promotion": 0.02, "judging": 0.1}  # after the phase is seen
BATCH = 20  # samples of a request


@dataclass
class Ledger:
    """What was acknowledged, and what was asked without an answer."""

    samples: set[str] = field(default_factory=set)
    answers: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)  # by key: path, body, answer
    unsure: list[tuple[str, str, Any]] = field(default_factory=list)  # key, path, body
    strikes: dict[str, int] = field(default_factory=dict)  # by device: the run
    flying: Counter[str] = field(default_factory=Counter)  # requests on their way, by phase
    refused: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Clients:
    """Threads that keep a manager busy, whichever address it has at the moment."""

    ledger: Ledger
    seed: int
    world: str
    pace_s: float
    queue: int
    address: Address | None = None
    up: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for act in (self.ingest, self.operate):
            self.threads.append(threading.Thread(target=act))
            self.threads[-1].start()

    def stop(self) -> None:
        self.over.set()
        self.up.set()
        for thread in self.threads:
            thread.join()

    def went_up(self, address: Address) -> None:
        self.address = address
        self.up.set()

    # -- samples ------------------------------------------------------------------------------------------------

    def ingest(self) -> None:
        stream, number, client = Stream(self.seed), 0, None
        while not self.over.is_set():
            x, y = stream.take(BATCH)
            ids = [f"s{number + i}" for i in range(BATCH)]
            body = pack_samples(Head(ids=ids, actual=y, predicted=y), x)
            number += BATCH
            while not self.over.is_set():
                client = client or self._client()
                if client is not None and self._sent(client, ids, body):
                    break
                client = None
            self.over.wait(self.pace_s)

    def _sent(self, client: httpx.Client, ids: list[str], body: bytes) -> bool:
        self.ledger.flying["ingest"] += 1
        try:
            answer = client.post("/stores/digits/samples", content=body, headers=BINARY)
        except httpx.TransportError:
            return False
        finally:
            self.ledger.flying["ingest"] -= 1
        assert ok(answer)["ids"] == ids
        with self.ledger.lock:
            self.ledger.samples.update(ids)
        return True

    # -- everything else ----------------------------------------------------------------------------------------

    def operate(self) -> None:
        dice, client, number = random.Random(self.seed), None, 0
        while not self.over.is_set():
            client = client or self._client()
            if client is None:
                continue
            number += 1
            try:
                self._one(client, dice, number)
            except httpx.TransportError:
                client = None
            self.over.wait(dice.uniform(0, 4 * self.pace_s))

    def _one(self, client: httpx.Client, dice: random.Random, number: int) -> None:
        match dice.choice(["job", "struck", "plan", "update", "promote", "promote", "rollback"]):
            case "job":
                if self._few_wait(client):
                    document = {
                        **JOB,
                        "name": f"job-{number}",
                        "task": "littoral.tasks.digits",
                        "target": {"epochs": 3},
                    }
                    self.ask(client, "run", "/jobs", {"job": document, "options": {"world": self.world}})
            case "struck":
                if self._few_wait(client):
                    self._strike(client, f"c{self.seed}-{number}")
            case "plan":
                self.ask(client, "planning", "/plans", {"job": {**JOB, "task": "littoral.tasks.digits"}})
            case "update":
                self.ask(client, "planning", "/models/digits/update", {"why": "asked for"})
            case "promote":
                versions = ok(client.get("/models/digits/versions", params={"limit": 500}))["items"]
                if versions:
                    body = {"version": dice.choice(versions)["number"], "force": dice.random() < 0.5}
                    self.ask(client, "promotion", "/models/digits/promote", body)
            case "rollback":
                self.ask(client, "promotion", "/models/digits/rollback", None)

    def _few_wait(self, client: httpx.Client) -> bool:
        return len(ok(client.get("/runs", params={"state": "queued"}))["items"]) < self.queue

    def _strike(self, client: httpx.Client, name: str) -> None:
        """A job in which one device of a continuum of its own is lost once: one strike, which must stay."""
        devices = [{**CONTINUUM["devices"][0], "name": f"{name}-1"}]
        ok(client.put(f"/continuums/{name}", json={**CONTINUUM, "devices": devices}))
        document = {
            **JOB, "name": name, "continuum": name, "task": "littoral.tasks.digits", "target": {"epochs": 2},
            "on_failure": "deepedge",
            "faults": [{"at": "10 ms", "node": f"{name}-1", "kind": "crash", "for": "10 ms"}],
        }  # fmt: skip
        answer = self.ask(client, "run", "/jobs", {"job": document, "options": {"world": "simulated"}})
        if answer is not None:
            self.ledger.strikes[f"{name}-1"] = answer["run"]["number"]

    def ask(self, client: httpx.Client, phase: str, path: str, body: Any) -> Any:
        """A POST with a key, its answer kept; asked again later if there was none."""
        key = uuid4().hex
        self.ledger.flying[phase] += 1
        try:
            answer = client.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            self.ledger.unsure.append((key, path, body))
            raise
        finally:
            self.ledger.flying[phase] -= 1
        if answer.status_code < 300:
            self.ledger.answers[key] = (path, body, answer.json())
            return answer.json()
        assert answer.status_code == 409, (path, answer.status_code, answer.text)
        self.ledger.refused[answer.status_code] += 1
        return None

    def _client(self) -> httpx.Client | None:
        self.up.wait(1.0)
        self.over.wait(0.05)  # it may be gone, and not back yet
        return client_of(self.address) if self.up.is_set() and self.address is not None else None


def prepare(served: Served) -> Address:
    """A model with a trigger, and weights to begin with."""
    address = served.start()
    with client_of(address) as client:
        ok(client.put("/continuums/bench", json=CONTINUUM))
        ok(client.post("/models", json=model("digits", epochs=5, retention={"most_samples": 10_000_000})))
        settings = {"samples": 600, "debounce_s": 0, "cool_down_s": 0}
        x, y = Stream(0).take(300)
        ok(
            client.post(
                "/stores/digits/samples",
                content=pack_samples(Head(ids=[f"first-{i}" for i in range(300)], actual=y), x),
                headers=BINARY,
            )
        )
        ok(client.post("/triggers", json={"model": "digits", "kind": "count", "settings": settings}))
    return address


def kills(served: Served, clients: Clients, count: int, dice: random.Random) -> tuple[Findings, Counter[str]]:
    """Kill, restart, check; again and again."""
    findings, hit, states = Findings(), Counter[str](), States(served.data)
    for turn in range(count):
        aim = AIMS[turn % len(AIMS)]
        patience = time.monotonic() + 30
        while not states.now(clients.ledger.flying)[aim] and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, LATEST_S[aim]))
        in_flight = Counter(clients.ledger.flying)
        clients.up.clear()
        served.kill(everybody=dice.random() < 0.5)
        there = {phase for phase, yes in states.now(in_flight).items() if yes}
        hit.update(there or {"idle"})
        check(served.data, clients.ledger, findings)
        clients.went_up(served.start())
        repeat(clients, findings, dice)
        check(served.data, clients.ledger, findings)
        tell(f"kill {turn + 1}: aimed at {aim}, hit {', '.join(sorted(there)) or 'nothing'}; {findings.line()}")
    return findings, hit


def repeat(clients: Clients, findings: Findings, dice: random.Random) -> None:
    """The same key gives the same answer; what was not answered is asked again, and is answered once."""
    ledger = clients.ledger
    assert clients.address is not None
    with client_of(clients.address) as client:
        known = dice.sample(sorted(ledger.answers), min(10, len(ledger.answers)))
        for key in known:
            path, body, before = ledger.answers[key]
            again = client.post(path, json=body, headers={"Idempotency-Key": key})
            findings.repeated += 1
            if again.status_code >= 300 or again.json() != before:
                findings.wrong.append(f"{path} again: {again.status_code} {again.text[:300]}, not {str(before)[:300]}")
        unsure, ledger.unsure = ledger.unsure, []
        for key, path, body in unsure:
            first, second = (client.post(path, json=body, headers={"Idempotency-Key": key}) for _ in range(2))
            findings.asked_again += 1
            if first.status_code < 300:
                ledger.answers[key] = (path, body, first.json())
            if first.status_code >= 500 or (first.status_code < 300 and first.json() != second.json()):
                findings.wrong.append(f"{path} asked again: {first.text[:300]}, then {second.text[:300]}")


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--power-cut", type=int, default=0, help="copies to take and open, instead of kills")
    parser.add_argument("--serve-last", action="store_true", help="one more image is served until all has ended there")
    parser.add_argument("--queue", type=int, default=2, help="users' jobs that may wait")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="simulated", help="where users' jobs run; updates run in the simulated one")
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        served = Served(folder / "data", folder / "log.txt", ("--runs", "2"))
        clients = Clients(Ledger(), asked.seed, asked.world, pace_s=0.05, queue=asked.queue)
        clients.went_up(prepare(served))
        clients.start()
        dice = random.Random(asked.seed)
        try:
            if asked.power_cut:
                report = cut(
                    served, clients.ledger, asked.power_cut, dice, folder / "images", tell, serve_last=asked.serve_last
                )
                clients.stop()
            else:
                findings, hit = kills(served, clients, asked.kills, dice)
                clients.stop()
                report = {"kills": asked.kills, "phases hit": dict(hit)}
                settled(served, clients.ledger, findings)
                report |= findings.report(clients.ledger)
        finally:
            clients.stop()
            served.kill(everybody=True)
        report["tracebacks in the log"] = (folder / "log.txt").read_text().count("Traceback")
    print(json.dumps(report, indent=2))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
