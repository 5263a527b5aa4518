"""The resource monitor: heartbeats, devices that fall silent, strikes and pardon, across a kill of the manager."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from given import CONTINUUM, ended, job, submit, until
from serving import Served, serving
from test_serve import CLEAN, LITTORAL, client_of, process

from littoral import Client
from littoral.errors import InputError
from littoral.manager.database import Database
from littoral.manager.events import MIGRATION as EVENTS
from littoral.manager.events import Events, Filter
from littoral.manager.manager import ManagerOptions
from littoral.manager.monitor import MIGRATION, Monitor
from littoral.manager.paging import Window
from littoral.manager.present import Absent, check_plan, without
from littoral.manager.refusals import Conflict
from littoral.manager.tokens import Role
from littoral.profiling.rows import State
from littoral.testing import simulate, small_job

BUSY = State(cpu=0.5, memory=0.25)


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path, [EVENTS, MIGRATION])
    yield database
    database.close()


def monitor_of(database: Database, clock: list[float]) -> Monitor:
    monitor = Monitor(database, Events(database), database.path.parent / "runs", 20.0, lambda: clock[0])
    monitor.start()
    return monitor


def kinds(database: Database) -> list[str]:
    return [event.kind for event in Events(database).listed(Window(limit=100), Filter(kind="device.")).items]


# -- heartbeats -------------------------------------------------------------------------------------------------------


def test_silence_makes_a_device_lost_and_a_beat_brings_it_back(database: Database, clock: list[float]) -> None:
    monitor = monitor_of(database, clock)
    monitor.receive("nano", 5.0, BUSY)
    clock[0] += 20.0
    assert monitor.watch() == [] and not monitor.absent().lost
    clock[0] += 0.1
    assert monitor.absent().lost == {"nano": "was silent for 20 s"}, "also before anybody looked"
    assert monitor.watch() == ["nano"] and monitor.watch() == []
    assert monitor.beats()["nano"].lost
    monitor.receive("nano", 6.0, BUSY)
    assert not monitor.beats()["nano"].lost and not monitor.absent().lost
    assert kinds(database) == ["device.heard", "device.lost", "device.returned"]


def test_beats_out_of_order_are_refused_unless_silence_lasted(database: Database, clock: list[float]) -> None:
    monitor = monitor_of(database, clock)
    monitor.receive("nano", 10.0, BUSY)
    monitor.receive("nano", 10.0, BUSY)  # the answer was lost, so it is sent again
    with pytest.raises(Conflict, match=r"sent 1\.000 s before"):
        monitor.receive("nano", 9.0, State(cpu=1.0))
    assert monitor.beats()["nano"].load == BUSY
    clock[0] += 21
    monitor.watch()
    monitor.receive("nano", 1.0, BUSY)  # its clock was set back
    monitor.receive("nano", 2.0, BUSY)
    assert monitor.beats()["nano"].sent == 2.0


def test_after_a_restart_the_lost_stay_lost_and_others_get_their_time(database: Database, clock: list[float]) -> None:
    first = monitor_of(database, clock)
    first.receive("gone", 1.0, BUSY)
    clock[0] += 21
    first.watch()
    first.receive("here", 1.0, BUSY)
    clock[0] += 3600  # the manager was down
    second = monitor_of(database, clock)
    assert set(second.absent().lost) == {"gone"}
    clock[0] += 21
    assert second.watch() == ["here"]
    assert set(second.absent().lost) == {"gone", "here"}


def test_heartbeats_over_http(served: Served) -> None:
    with served.client() as client, served.client(Role.INGEST) as device, served.client(Role.VIEWER) as viewer:
        client.put("/continuums/bench", json=CONTINUUM)
        beat = {"sent": 100.0, "load": {"cpu": 0.5, "celsius": 61.0}}
        assert device.post("/devices/w-1/heartbeat", json=beat).json()["lost_after_s"] == 20.0
        shown = {row["name"]: row for row in viewer.get("/devices").json()["items"]}
        assert shown["w-1"]["load"]["cpu"] == 0.5 and shown["w-1"]["state"] == "idle"
        assert shown["w-1"]["heartbeat"] > 1e9 and shown["w-2"]["heartbeat"] is None
        assert device.post("/devices/w-1/heartbeat", json={**beat, "sent": 99.0}).status_code == 409
        assert device.post("/devices/nobody/heartbeat", json=beat).status_code == 404
        assert viewer.post("/devices/w-1/heartbeat", json=beat).status_code == 403
        nonsense = ('"cpu": NaN', '"cpu": 1.5', '"memory": -1', '"load": Infinity', '"celsius": NaN', '"cpu": "x"')
        for wrong in (*nonsense, '"cpu": "0.5"', '"load": true', '"pace": "1"', '"pace": -1'):
            answer = _raw(device, f'{{"sent": 101, "load": {{{wrong}}}}}')
            assert answer.status_code == 422 and answer.json()["detail"], wrong
        for wrong in ("NaN", "-1", "1e300", "null"):
            assert _raw(device, f'{{"sent": {wrong}}}').status_code == 422, wrong
        assert viewer.get("/devices").json()["items"][1]["load"]["celsius"] == 61.0


def _raw(client: httpx.Client, body: str) -> httpx.Response:
    return client.post("/devices/w-1/heartbeat", content=body, headers={"Content-Type": "application/json"})


def test_a_silent_device_is_not_planned_with(tmp_path: Path) -> None:
    with serving(tmp_path, ManagerOptions(lost_after_s=0.5)) as served, served.client() as client:
        client.put("/continuums/bench", json=CONTINUUM)
        assert client.post("/devices/w-1/heartbeat", json={"sent": 1}).status_code == 200
        until(lambda: [row["name"] for row in client.get("/devices?state=lost").json()["items"]] == ["w-1"])
        planned = client.post("/plans", json={"job": job(strategy="allreduce", servers=[])})
        assert planned.status_code == 201, planned.text
        assert _workers(planned.json()["plans"][0]["plan"]) == ["w-2"]
        run = submit(client, job(), world="simulated", timing_only=True)["run"]
        assert ended(client, run["number"])["state"] == "finished"
        assert list(client.get("/runs/1/result").json()["result"]["workers"]) == ["w-2"]
        refused = client.post("/plans", json={"job": job(workers=["w-1"])})
        assert refused.status_code == 422 and "nobody is left to work: w-1 was silent" in refused.json()["detail"]


def _workers(plan: dict[str, Any]) -> list[str]:
    return [worker["name"] for worker in plan["workers"]]


def test_who_is_absent_in_whose_job() -> None:
    everybody = small_job(workers=3)
    one, two, three = everybody.workers
    assert without(everybody, Absent()) is everybody
    assert without(everybody, Absent(struck=(one,))) is everybody, "elastic jobs count no strikes"
    counting = replace(everybody, on_failure="deepedge")
    assert without(counting, Absent(struck=(one,))).workers == (two, three)
    assert without(counting, Absent(struck=(one, two, three))) is counting, "the run says so itself, and counts"
    gone = without(replace(counting, servers=()), Absent(lost={two: "was silent"}, struck=(one,)))
    assert gone.workers == (three,) and set(gone.servers) == {"hub", one, three}, "strikes do not keep from serving"
    with pytest.raises(InputError, match="nobody is left to serve: hub was silent"):
        without(everybody, Absent(lost={"hub": "was silent"}))
    plan = simulate(everybody, timing_only=True).plan
    check_plan(plan, Absent(struck=(one,)))
    with pytest.raises(InputError, match="nobody is left to follow the plan"):
        check_plan(plan, Absent(lost={one: "was silent"}))


def test_the_agent_tells_how_busy_its_device_is(tmp_path: Path) -> None:
    with serving(tmp_path, ManagerOptions(lost_after_s=1.5)) as served, served.client() as client:
        client.put("/continuums/bench", json=CONTINUUM)
        asked = ["--url", served.url, "--token", served.secrets[Role.INGEST], "--every", "200 ms"]
        with subprocess.Popen(
            [*LITTORAL, "agent", "--device", "w-2", *asked], env=CLEAN, stderr=subprocess.PIPE
        ) as agent:
            shown = until(lambda: (row := client.get("/devices").json()["items"][2])["load"] and row)
            assert shown["name"] == "w-2" and 0 < shown["load"]["memory"] < 1
            assert math.isfinite(shown["load"]["cpu"])
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(20) == 0
        until(lambda: client.get("/devices").json()["items"][2]["state"] == "lost")
        wrong = subprocess.run([*LITTORAL, "agent", "--device", "nobody", *asked], env=CLEAN, capture_output=True)
        assert wrong.returncode == 2 and b"there is no device 'nobody'" in wrong.stderr


# -- strikes ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_strikes_and_pardon_outlive_a_killed_manager(tmp_path: Path) -> None:
    """One loss by a real death, two more by faults, with kill -9 in between; the third strike keeps it from plans."""
    with process(tmp_path) as server, client_of(tmp_path) as client:
        client.put_continuum("bench", CONTINUUM)
        number = client.submit(_counting(epochs=200)).run.number
        until(lambda: (progress := client.run(number).progress) and progress.epochs > 1)
        _kill_node(server.pid, "w-1")
        until(lambda: _device(client, "w-1").strikes == 1)
        server.kill()
        server.wait()
    with process(tmp_path) as server, client_of(tmp_path) as client:
        assert _device(client, "w-1").strikes == 1
        client.stop(number)
        list(client.watch(number))
        for strikes in (2, 3):
            assert _simulated(client, faults=[_FAULT]) == ["w-1", "w-2"]
            assert _device(client, "w-1").strikes == strikes
        assert _device(client, "w-1").state == "excluded" and _device(client, "w-1").returns_in_runs == 3
        server.kill()
        server.wait()
    with process(tmp_path) as server, client_of(tmp_path) as client:
        assert _device(client, "w-1").state == "excluded"
        planned = client.plan(_counting(epochs=2)).plans[0].plan
        assert _workers(planned) == ["w-2"]
        assert _simulated(client) == ["w-2"]
        assert _simulated(client, on_failure="elastic", faults=[_FAULT]) == ["w-1", "w-2"]
        assert _device(client, "w-1").strikes == 3, "elastic runs neither count strikes nor mind them"
        assert client.pardon("w-1") == 3
        server.kill()
        server.wait()
    with process(tmp_path), client_of(tmp_path) as client:
        assert (_device(client, "w-1").state, _device(client, "w-1").strikes) == ("idle", 0)
        assert _simulated(client) == ["w-1", "w-2"]


_FAULT = {"at": "10 ms", "node": "w-1", "kind": "crash", "for": "10 ms"}


def _counting(epochs: int, **changes: Any) -> dict[str, Any]:
    small = {"samples": 240, "test_samples": 60, "classes": 3, "features": 8, "width": 0.05, "batch": 8}
    task = {"name": "littoral.tasks.synthetic", **small}
    return job(**{"task": task, "target": {"epochs": epochs}, "on_failure": "deepedge", **changes})


def _simulated(client: Client, **changes: Any) -> list[str]:
    """Who takes part in a run in virtual time."""
    from littoral.manager.jobs import RunOptions

    asked = client.submit(_counting(40, **changes), RunOptions(world="simulated", timing_only=True))
    assert list(client.watch(asked.run.number))[-1].state == "finished", client.log(asked.run.number)
    return list(client.result(asked.run.number)["workers"])


def _device(client: Client, name: str) -> Any:
    return next(row for row in client.devices().items if row.name == name)


def _kill_node(manager: int, name: str) -> None:
    for child in psutil.Process(manager).children(recursive=True):
        if os.readlink(f"/proc/{child.pid}/fd/1").endswith(f"/{name}.log"):
            child.kill()
            return
    raise AssertionError(f"no process of {name}")
