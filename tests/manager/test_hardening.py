"""What crash, fuzz and load tests found, each kept from coming back."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from freshness import Stream, alive, ingest
from given import CONTINUUM, ended, endless, job, submit, until
from serving import Served, serving

from littoral.manager.parcels import Head, pack_samples
from littoral.manager.tokens import Role
from littoral.manager.weights import Weights

BINARY = {"Content-Type": "application/octet-stream"}
JOB = {"continuum": "bench", "workers": ["w-*"], "target": {"epochs": 12}, "strategy": "allreduce", "planner": "fair"}
MODEL: dict[str, Any] = {
    "name": "digits",
    "task": "littoral.tasks.digits",
    "gate": {"least_samples": 20},
    "training": {"least_samples": 50, "window": 400, "job": JOB, "options": {"world": "simulated"}},
}


def test_an_update_goes_on_in_a_data_folder_that_was_moved(tmp_path: Path) -> None:
    x, y = Stream().take(600)
    with serving(tmp_path / "here") as first, first.client() as operator:
        assert operator.put("/continuums/bench", json=CONTINUUM).status_code == 200
        assert operator.post("/models", json=MODEL).status_code == 201
        content = pack_samples(Head(actual=y), x)
        assert operator.post("/stores/digits/samples", content=content, headers=BINARY).status_code == 201
        assert operator.post("/models/digits/update", json={}).status_code == 201
        until(lambda: (operator.get("/runs").json()["items"] or [{}])[0].get("state") == "running")
        secrets = first.secrets
    os.rename(tmp_path / "here", tmp_path / "there")
    with serving(tmp_path / "there", secrets=secrets) as second, second.client() as operator:
        update = until(lambda: (found := operator.get("/updates/1").json())["ended"] and found)
        assert update["state"] == "promoted" and update["attempt"] == 0, update


def test_truth_is_no_number(served: Served) -> None:
    with served.client() as operator:
        assert operator.put("/continuums/bench", json=CONTINUUM).status_code == 200
        assert operator.post("/models", json=MODEL).status_code == 201
        for body in ({"labels": [{"id": "a", "actual": False}]}, {"labels": [{"id": "a", "actual": "1"}]}):
            assert operator.patch("/stores/digits/samples", json=body).status_code == 422
        for body in ({"version": True}, {"version": 1, "force": "yes"}):
            assert operator.post("/models/digits/promote", json=body).status_code == 422


def test_who_leaves_in_the_middle_of_a_body_is_no_failure(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    place = urlsplit(served.url)
    head = f"POST /stores/x/samples HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.secrets['operator']}\r\n"
    with socket.create_connection((place.hostname, place.port)) as leaving:
        leaving.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        with served.client() as other:
            assert other.get("/health").status_code == 200
    with served.client() as other:
        for _ in range(20):
            assert other.get("/health").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_run_lets_the_manager_go_first(served: Served) -> None:
    with served.client() as client:
        submit(client, endless(), world="simulated", timing_only=True)
        until(lambda: (client.get("/runs/1").json()["progress"] or {}).get("samples"))
        runners = [child for child in psutil.Process().children() if "littoral.manager.runner" in child.cmdline()]
        assert [child.nice() for child in runners] == [os.nice(0) + 10]
        client.post("/runs/1/stop")


def test_the_run_of_an_update_that_was_given_up_before_a_kill_is_stopped(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model()
        ingest(life.cycle.samples, "digits-store", *Stream().take(600))
        with life.database.write() as connection:
            number = life.cycle.updates.request(connection, "digits", "asked", life.clock()).number
        for _ in range(2):
            update = life.cycle.updates.advance(number, life.clock())
        assert update.state == "running"
        with life.database.write() as connection:
            life.cycle.updates.give_up(connection, number, life.clock(), "not wanted")
    with alive(tmp_path) as life:
        life.cycle.start()
        assert life.trainer.stopped == ["update-1-0"]


def test_the_same_key_gives_the_same_answer_when_the_world_has_changed(served: Served) -> None:
    document = {"job": endless(), "options": {"world": "simulated", "timing_only": True}}
    key = {"Idempotency-Key": "once"}
    with served.client() as client:
        assert client.put("/continuums/bench", json=CONTINUUM).status_code == 200
        first = client.post("/jobs", json=document, headers=key)
        made = client.post("/models", json=MODEL, headers={"Idempotency-Key": "model"})
        assert first.status_code == made.status_code == 201
        assert client.delete("/continuums/bench").status_code == 204
        assert client.post("/jobs", json=document, headers=key).json() == first.json()
        assert client.post("/models", json=MODEL, headers={"Idempotency-Key": "model"}).json() == made.json()
        client.post("/runs/1/stop")


def test_a_run_whose_files_a_power_cut_damaged_begins_again(served: Served) -> None:
    with served.client() as client:
        submit(client, job(target={"epochs": 300}), world="simulated", timing_only=True)
        until(lambda: (client.get("/runs/1").json()["progress"] or {}).get("samples"))
        client.post("/runs/1/stop")
        ended(client, 1)
        folder = served.manager.launcher.folder(1)
        for name in ("job.yaml", "plan.json"):
            (folder / name).write_bytes(b"")
        (folder / "result.json").write_bytes(b'{"reas')
        assert client.post("/runs/1/resume").status_code == 200
        assert ended(client, 1)["state"] == "finished"


def test_an_update_whose_run_is_damaged_fails_and_nothing_else(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model()
        ingest(life.cycle.samples, "digits-store", *Stream().take(600))
        with life.database.write() as connection:
            number = life.cycle.updates.request(connection, "digits", "asked", life.clock()).number
        while life.cycle.updates.advance(number, life.clock()).state != "judging":
            life.trainer.close()
        (life.trainer.folder / "update-1-0" / "plan.json").write_bytes(b"")
        life.settle()
        update = life.cycle.updates.get(number)
        assert update.state == "failed" and "JSONDecodeError" in update.reason


def test_the_same_weights_may_come_many_times_at_once(tmp_path: Path) -> None:
    weights, start = Weights(tmp_path), threading.Barrier(8)

    def keep(content: bytes) -> str:
        start.wait()
        return weights.keep("digits", content)

    with ThreadPoolExecutor(8) as pool:
        for turn in range(20):
            names = set(pool.map(keep, [str(turn).encode() * 10_000] * 8))
            assert len(names) == 1 and weights.read("digits", names.pop())
    assert len(list(tmp_path.glob("*/*"))) == 20


def test_the_body_of_a_stranger_is_not_read(served: Served) -> None:
    """Who has no token, or one that is not for this, is told so by the head of the request alone."""
    place = urlsplit(served.url)
    jobs, samples, junk = "/jobs", "/stores/x/samples", "lit_000000000000_" + "A" * 43
    strangers = ((jobs, "", 401), (jobs, junk, 401), (jobs, served.secrets[Role.VIEWER], 403), (samples, "", 401))
    for path, token, status in strangers:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\n"
        with socket.create_connection((place.hostname, place.port), timeout=10) as stranger:
            stranger.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())  # the rest never comes
            assert stranger.recv(12) == f"HTTP/1.1 {status}".encode()


def test_large_bodies_are_for_those_who_have_a_token(served: Served) -> None:
    body = b'{"job": {"a": "' + b"a" * 70_000 + b'"}}'
    with served.client(None) as stranger, served.client() as operator:
        assert stranger.post("/jobs", content=body).status_code == 401
        assert stranger.post("/jobs", content=iter([body])).status_code == 401
        assert operator.post("/jobs", content=body).status_code == 422
        assert operator.post("/jobs", content=iter([body])).status_code == 422
