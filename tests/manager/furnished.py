"""A manager with something of everything in it: a continuum, a served model with samples, a trigger, a finished run."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from given import CONTINUUM, ended, job, submit
from safetensors.torch import save

from littoral.manager.parcels import Head, pack_samples
from littoral.tasks.digits import Digits

BINARY = {"Content-Type": "application/octet-stream"}
JOB = {"continuum": "bench", "workers": ["w-*"], "strategy": "allreduce", "planner": "fair"}
SAMPLES = 60


def furnish(client: httpx.Client) -> None:
    """Over HTTP, as an operator."""
    _ok(client.put("/continuums/bench", json=CONTINUUM))
    training = {"least_samples": 50, "job": JOB, "options": {"world": "simulated"}}
    _ok(client.post("/models", json={"name": "digits", "task": "littoral.tasks.digits", "training": training}))
    weights = save(dict(Digits().model().state_dict()))
    _ok(client.post("/models/digits/versions", content=weights, headers=BINARY))
    _ok(client.post("/models/digits/promote", json={"version": 1, "force": True}))
    _ok(client.post("/triggers", json={"model": "digits", "kind": "count", "settings": {"samples": 100_000}}))
    x = np.random.default_rng(0).random((SAMPLES, 1, 8, 8), dtype=np.float32)
    head = Head(actual=[i % 10 for i in range(SAMPLES)], predicted=[0] * SAMPLES)
    _ok(client.post("/stores/digits/samples", content=pack_samples(head, x), headers=BINARY))
    _ok(client.post("/models/digits/predict", content=x[:7].tobytes(), headers=BINARY))
    run = submit(client, job(), world="simulated", timing_only=True)["run"]["number"]
    assert ended(client, run)["state"] == "finished"


def _ok(answer: httpx.Response) -> Any:
    assert answer.status_code in (200, 201), answer.text
    return answer.json()
