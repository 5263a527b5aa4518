"""What the written runs of these tests are about."""

from __future__ import annotations

from typing import Any

CONTINUUM: dict[str, Any] = {
    "name": "two-sites",
    "sites": [{"name": "shed", "tier": "edge"}, {"name": "hall", "tier": "cloud"}],
    "devices": [
        {"name": name, "site": site, "label": kind, "memory": "1 GB", "step": {"per_sample": "1 ms"}}
        for name, site, kind in (("a", "shed", "nano"), ("b", "hall", "big"), ("c", "hall", "big"))
    ],
    "links": [
        {"between": ["shed", "hall"], "latency": "500 ms", "down": "1 MB/s",
         "up": {"steps": [["0 s", "1 MB/s"], ["5 s", "2 MB/s"]]}},
        {"between": ["hall", "hall"], "bandwidth": "10 Gbit/s"},
    ],
    "apps": [{"name": "camera", "on": ["a"], "every": "1 s", "deadline": "1 s", "work": "100 ms"}],
}  # fmt: skip

PLAN: dict[str, Any] = {
    "planner": "fair",
    "strategy": "parameter_server",
    "parameters": {"mode": "asp"},
    "workers": [
        {"name": "w1", "device": "a", "shard": 10, "batch": 5, "samples_per_s": 1.0},
        {"name": "w2", "device": "b", "shard": 10, "batch": 5, "samples_per_s": 1.0},
    ],
    "servers": [{"name": "ps-1", "device": "c", "start": 0, "stop": 100}],
    "epochs": 4,
    "predicted": {
        "time_s": 17.0, "epoch_s": 4.0, "bytes_sent": 0.0, "wan_bytes": 0.0, "cost_usd": 0.0,
        "terms": [{"name": "compute", "seconds": 17.0, "formula": "4 steps of w1"}],
    },
}  # fmt: skip
