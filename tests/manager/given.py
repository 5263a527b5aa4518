"""Small documents for tests of the manager: a continuum of three devices and a job of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

CONTINUUM: dict[str, Any] = {
    "sites": [{"name": "bench"}],
    "devices": [
        {"name": "hub", "site": "bench", "speed": "8 GFLOP/s", "memory": "2 GiB"},
        {"name": "w-1", "count": 2, "site": "bench", "speed": "8 GFLOP/s", "memory": "2 GiB"},
    ],
    "links": [{"between": ["bench", "bench"], "bandwidth": "1 Gbit/s", "latency": "0.2 ms"}],
    "stores": [{"name": "pictures", "site": "bench", "samples": 100}],
    "apps": [{"name": "spin", "on": "hub", "every": "200 ms", "work": "1 ms"}],
}


def job(**changes: Any) -> dict[str, Any]:
    """Digits, in a few seconds of real processes."""
    return {
        "name": "digits",
        "continuum": "bench",
        "task": {"name": "littoral.tasks.digits", "width": 0.2},
        "target": {"epochs": 2},
        "workers": ["w-*"],
        "servers": ["hub"],
        "strategy": {"name": "parameter_server", "mode": "asp"},
        "planner": "fair",
        **changes,
    }


def endless(**changes: Any) -> dict[str, Any]:
    """A job that does not end by itself while a test waits."""
    small = {"samples": 240, "test_samples": 60, "classes": 3, "features": 8, "width": 0.05, "batch": 8}
    task = {"name": "littoral.tasks.synthetic", **small}
    return job(task=task, target={"epochs": 5_000}, evaluate_every=1.0, **changes)


def until(condition: Callable[[], Any], patience_s: float = 150.0) -> Any:
    """What a condition gives once it gives something."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {patience_s:g} s in vain")


def submit(client: httpx.Client, document: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Keep the continuum and submit a job."""
    assert client.put("/continuums/bench", json=CONTINUUM).status_code == 200
    answer = client.post("/jobs", json={"job": document, "options": options})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ended(client: httpx.Client, number: int) -> dict[str, Any]:
    """A run, once it has ended."""

    def over() -> Any:
        run = client.get(f"/runs/{number}").json()
        return run if run["ended"] else None

    found: dict[str, Any] = until(over)
    return found
