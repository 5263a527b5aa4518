"""A run written by hand: two workers on two sites, a server, a link of 1 MB/s and half a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from materials import CONTINUUM, PLAN

from littoral.events import (
    AppChecked,
    Computed,
    EpochFinished,
    Evaluated,
    Event,
    FaultInjected,
    NodeLost,
    NodeReturned,
    NodeStarted,
    RunFinished,
    RunStarted,
    Sent,
)
from littoral.journal import Journal

WriteRun = Callable[..., Path]


DETAIL: list[Event] = [
    Computed(2.0, "w1", 0.0, 5, 0, 1.0),
    Computed(3.0, "w2", 0.0, 5, 0, 1.0),
    Sent(3.5, "w1", "ps-1", "Push", 1_000_000, 2.0, True),
    Sent(7.0, "w1", "ps-1", "Push", 1_000_000, 6.0, True),
]
HAPPENINGS: list[Event] = [
    NodeStarted(0.0, "ps-1"),
    NodeStarted(0.0, "w1"),
    NodeStarted(0.0, "w2"),
    FaultInjected(4.0, "crash", "w2", 2.0, 0.5),
    NodeLost(5.5, "w2", "crashed"),
    NodeReturned(8.0, "w2"),
    EpochFinished(9.0, 0, 60),
    AppChecked(10.0, "camera", "a", 10, 1, 0.1, 1.2),
    RunFinished(10.0, "target"),
]
EVALUATIONS: list[Event] = [Evaluated(0.0, 0, 0.1, 2.3), Evaluated(9.5, 20, 0.96, 0.2)]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run's folder and gives its path."""

    def write(
        name: str = "run",
        *,
        seed: int = 1,
        job_name: str = "demo",
        detail: bool = True,
        evaluated: bool = True,
        plan: dict[str, Any] | None = None,
        continuum: dict[str, Any] | None = None,
        result: dict[str, Any] | None = None,
        events: list[Event] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        job = {"name": job_name, "task": {"name": "tasks.digits"}, "target": {"epochs": 4}}
        start = RunStarted(0.0, name, "simulated", seed, not evaluated, job, continuum or CONTINUUM, plan or PLAN)
        happened = [*DETAIL, *HAPPENINGS, *(EVALUATIONS if evaluated else [])] if events is None else events
        with Journal(folder / "journal.jsonl", detail=detail) as journal:
            for event in (start, *sorted(happened, key=lambda event: event.t)):
                journal.write(event)
        (folder / "result.json").write_text(json.dumps(_result(evaluated) | (result or {})))
        return folder

    return write


def _result(evaluated: bool) -> dict[str, Any]:
    reached = 9.5 if evaluated else None
    return {
        "world": "simulated", "reason": "target", "time_s": 10.0, "epochs": 2.0, "samples": 40,
        "accuracy": 0.96 if evaluated else None, "target_accuracy": 0.95, "time_to_target_s": reached,
        "throughput_efficiency": 0.5, "goodput_efficiency": 0.25, "cost_usd": 0.5,
        "bytes_sent": 2_000_000, "wan_bytes": 2_000_000, "slo": {"checked": 10, "violated": 1}, "workers": {},
    }  # fmt: skip
