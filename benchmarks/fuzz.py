"""Strangers at the manager's door: schemathesis on the served OpenAPI document, and probes that no schema thinks of.

    python benchmarks/fuzz.py [--requests 5000] [--seed 0]

Everything goes over a real socket to a ``littoral serve``. Schemathesis runs with an operator's token, in turns with
invented names and with names of things that are there, until so many requests were sent. It does not check that
whatever a schema allows is accepted: a job's document, say, must also name a continuum that exists. Runs that it
manages to start are stopped after a few seconds. The streams, which do not end by themselves, are left to the probes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from fuzz_probes import probe
from littoral.manager.address import Address
from littoral.manager.parcels import Head, pack_samples
from served import BINARY, CONTINUUM, JOB, Served, Stream, client_of, model, ok

UNCHECKED = "positive_data_acceptance"
THERE = {"path.name": ["digits", "bench", "viewer"], "path.number": [1, 2]}


def prepare(address: Address) -> dict[str, str]:
    """One of everything, so that names lead somewhere; the tokens of the other roles."""
    from safetensors.torch import save

    from littoral.tasks.digits import Digits

    x, y = Stream(0).take(300)
    job = {**JOB, "task": "littoral.tasks.digits", "target": {"epochs": 1}}
    with client_of(address) as client:
        ok(client.put("/continuums/bench", json=CONTINUUM))
        ok(client.post("/models", json=model("digits", epochs=1)))
        ok(client.post("/stores/digits/samples", content=pack_samples(Head(actual=y), x), headers=BINARY))
        for _ in range(2):
            weights = save(dict(Digits().model().state_dict()))
            ok(client.post("/models/digits/versions", content=weights, headers=BINARY))
        ok(client.post("/models/digits/promote", json={"version": 1, "force": True}))
        ok(client.post("/triggers", json={"model": "digits", "kind": "manual"}))
        ok(client.post("/plans", json={"job": job}))
        ok(client.post("/jobs", json={"job": job, "options": {"world": "simulated", "timing_only": True}}))
        ok(client.post("/models/digits/update", json={}))
        return {
            role: ok(client.post("/tokens", json={"name": role, "role": role}))["secret"]
            for role in ("viewer", "ingest")
        }


def begun(data: Path) -> None:
    """The update is at work, so that what it makes is no stranger's doing."""
    deadline = time.monotonic() + 60
    while not (data / "updates").exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def schemathesis(
    address: Address, folder: Path, seed: int, *, there: bool, phases: str, examples: int
) -> dict[str, Any]:
    """One turn; its report."""
    lines = [f'"{name}" = {json.dumps(values)}' for name, values in THERE.items()] if there else []
    (folder / "schemathesis.toml").write_text("\n".join(["[parameters]", *lines, ""]))
    report = folder / f"report-{seed}.json"
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run",
        f"{address.url}/openapi.json", "-H", f"Authorization: Bearer {address.token}", "--phases", phases,
        "--max-examples", str(examples),
        "--checks", "all", "--exclude-checks", UNCHECKED, "--exclude-path-regex", "/stream$", "--seed", str(seed),
        "--report", "json", "--report-json-path", str(report), "--continue-on-failure", "--no-shrink", "--no-color",
        "--request-timeout", "120",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    (folder / f"output-{seed}.txt").write_text(done.stdout + done.stderr)
    if not report.exists():
        raise SystemExit(f"schemathesis did not run: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def harmless(address: Address, over: threading.Event) -> None:
    """Stop whatever runs, every few seconds."""
    with client_of(address) as client:
        while not over.wait(3.0):
            for state in ("running", "queued"):
                for run in client.get("/runs", params={"state": state}).json()["items"]:
                    client.post(f"/runs/{run['number']}/stop")


def fuzz(address: Address, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Turns of schemathesis until so many requests were sent."""
    sent, turn, failures = 0, 0, Counter[str]()
    while sent < asked.requests:
        report = schemathesis(
            address, folder, asked.seed + turn, there=turn % 2 == 1, phases=asked.phases, examples=asked.examples
        )
        sent += report["test_cases"]["generated"]
        for failure in [*report["failures"], *report["errors"]]:
            failures[f"{failure.get('title')}: {', '.join(failure.get('operations', []))}"] += failure.get("count", 1)
        turn += 1
        tell(f"turn {turn}: {sent} requests, failures: {dict(failures)}")
    return {"turns": turn, "requests": sent, "failures": dict(failures)}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000, help="0: only the probes")
    parser.add_argument("--examples", type=int, default=20, help="of each operation, in a turn")
    parser.add_argument("--phases", default="coverage,fuzzing,stateful")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        served, over = Served(folder / "data", folder / "log.txt"), threading.Event()
        address = served.start()
        try:
            secrets = prepare(address)
            begun(served.data)
            watch = threading.Thread(target=harmless, args=(address, over), daemon=True)
            watch.start()
            probes, wrong = probe(address, secrets, served.data)
            report: dict[str, Any] = {"probes": probes}
            report["schemathesis"] = fuzz(address, folder, asked)
            over.set()
            alive = httpx.get(f"{address.url}/health", trust_env=False).status_code == 200
        finally:
            over.set()
            served.kill(everybody=True)
        log = (folder / "log.txt").read_text()
        report["tracebacks in the log"] = log.count("Traceback")
    wrong += list(report["schemathesis"]["failures"])
    wrong += [] if alive else ["the manager did not live"]
    wrong += ["there are tracebacks in the log"] if "Traceback" in log else []
    report["wrong"] = wrong
    print(json.dumps(report, indent=2))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
