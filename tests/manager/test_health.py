"""``/health`` says what is wrong; asked to end, the manager finishes what it was asked and checkpoints what runs."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest
from given import CONTINUUM, endless, job, until
from serving import Served, serving
from test_serve import client_of, process

from littoral.manager.address import read_address
from littoral.manager.database import Database
from littoral.manager.health import MIGRATION, Pulse
from littoral.manager.manager import Manager, ManagerOptions
from littoral.manager.runs import RunState
from littoral.manager.tokens import Role


def test_health_is_open_and_says_what_was_checked(served: Served) -> None:
    with served.client(None) as stranger:
        told = stranger.get("/health").json()
        assert told["status"] == "ok" and {"database", "disk", "launcher", "life cycle"} <= set(told["checked"])
        assert stranger.get("/health/live").json()["status"] == "ok"


def test_not_ready_says_why(served: Served) -> None:
    with served.client(None) as stranger, served.client(Role.VIEWER) as viewer:
        served.manager.launcher.stop()
        answer = stranger.get("/health")
        assert answer.status_code == 503 and answer.headers["content-type"] == "application/problem+json"
        assert "launcher: nobody looks after the runs" in answer.json()["detail"]
        assert stranger.get("/health/live").status_code == 200
        assert 'littoral_healthy{check="launcher"} 0.0' in viewer.get("/metrics").text


def test_too_little_space_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.client(None) as stranger:
        served.manager.options = ManagerOptions(least_free_bytes=2**62)
        detail = stranger.get("/health").json()["detail"]
        assert detail.startswith("disk: only ") and "are free" in detail and str(tmp_path) not in detail


def test_a_database_that_takes_no_write_is_noticed_and_forgiven(tmp_path: Path) -> None:
    database = Database(tmp_path, [MIGRATION])
    acted: list[int] = []
    pulse = Pulse(database, [lambda: acted.append(1)], beat_s=0.05, late_s=0.3, look_s=0.02)
    pulse.start()
    other = sqlite3.connect(tmp_path / "littoral.db", isolation_level=None)
    try:
        until(lambda: acted and not pulse.fault())
        other.execute("BEGIN IMMEDIATE")
        assert "took no write for" in until(pulse.fault)
        count = len(acted)
        until(lambda: len(acted) > count)
        other.execute("ROLLBACK")
        until(lambda: not pulse.fault())
        other.execute("DROP TABLE pulse")
        assert "cannot be written: no such table" in until(pulse.fault)
    finally:
        other.close()
        pulse.stop()
        database.close()


def test_asked_to_end_it_finishes_requests_and_checkpoints_runs(tmp_path: Path) -> None:
    """SIGTERM while real processes train and a plan is being made: the plan is answered, the exit is 0 and soon."""
    with process(tmp_path) as server, client_of(tmp_path) as client:
        client.put_continuum("bench", CONTINUUM)
        client.submit(endless())
        until(lambda: (progress := client.run(1).progress) and progress.epochs > 1)
        address, answers = read_address(tmp_path), []
        assert address is not None
        headers = {"Authorization": f"Bearer {address.token}"}

        def plan() -> None:
            answers.append(httpx.post(f"{address.url}/plans", json={"job": job()}, headers=headers, timeout=60))

        asking = threading.Thread(target=plan)
        asking.start()
        drafts = tmp_path / "drafts"
        until(lambda: any(drafts.iterdir()))  # the plan is being made
        begun = time.monotonic()
        server.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].status_code == 201, answers[0].text
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address.url}/health", trust_env=False)
        assert server.wait(60) == 0
        assert time.monotonic() - begun < 45
    journal = (tmp_path / "runs" / "1" / "journal.jsonl").read_text().splitlines()
    assert any('"event":"Checkpointed"' in line for line in journal[-200:])
    manager = Manager(tmp_path)
    run = manager.runs.get(1)
    manager.stop()
    assert (run.state, run.ended) == (RunState.QUEUED, None), "it goes on at the next start"
