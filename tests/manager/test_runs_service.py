"""Jobs over a real socket: run to the end, stop, resume, wait in order, and tell of themselves meanwhile."""

from __future__ import annotations

from given import CONTINUUM, ended, endless, job, submit, until
from serving import Served

from littoral.manager.follower import Follower
from littoral.manager.tokens import Role


def test_a_job_runs_to_its_end_in_real_processes(served: Served) -> None:
    with served.client() as client:
        run = submit(client, job())["run"]
        assert (run["state"], run["world"]) == ("queued", "processes")
        run = ended(client, run["number"])
        assert (run["state"], run["reason"], run["attempts"]) == ("finished", "epochs", 1), client.get(
            "/runs/1/log"
        ).text
        assert run["progress"]["share"] == 1.0 and run["progress"]["accuracy"] > 0.2
        result = client.get("/runs/1/result").json()["result"]
        assert result["samples"] == 2 * 1437 and result["world"] == "processes"
        kinds = [
            event["kind"] for event in client.get("/events", params={"limit": 500, "kind": "run."}).json()["items"]
        ]
        assert kinds[:2] == ["run.queued", "run.started"] and kinds[-1] == "run.finished"
        assert "run.epoch" in kinds and "run.evaluated" in kinds
        first = client.get("/runs/1/journal", params={"limit": 1}).json()
        assert first["items"][0]["event"] == "RunStarted"
        assert client.get("/runs/1/journal", params={"after": first["next"], "limit": 1}).json()["items"]
        for nowhere in (5, 2**62):
            assert client.get("/runs/1/journal", params={"after": nowhere}).status_code in (200, 422)
        assert any("progress" in row for row in client.get("/runs/1/feed").json()["items"])
        assert "event: run" in client.get("/runs/1/stream").text
        assert client.post("/runs/1/stop").status_code == client.post("/runs/1/resume").status_code == 409
    with served.client(Role.VIEWER) as viewer:
        assert "<html" in viewer.get("/runs/1/report").text


def test_stop_takes_a_checkpoint_and_resume_goes_on_from_it(served: Served) -> None:
    with served.client() as client:
        submit(client, endless(), world="simulated", timing_only=True)
        waiting = submit(client, job())["run"]["number"]
        until(lambda: (client.get("/runs/1").json()["progress"] or {}).get("epochs", 0) > 3)
        assert client.get(f"/runs/{waiting}").json()["state"] == "queued"
        states = {row["name"]: row["state"] for row in client.get("/devices").json()["items"]}
        assert states == {"hub": "working", "w-1": "working", "w-2": "working"}
        assert client.post(f"/runs/{waiting}/stop").json()["state"] == "stopped"
        assert client.post("/runs/1/stop").json()["stop_asked"]
        run = ended(client, 1)
        assert (run["state"], run["reason"]) == ("stopped", "stopped")
        saved = _last(client, "run.checkpointed")["samples"]
        assert saved
        assert client.post("/runs/1/resume").json()["state"] == "queued"
        resumed = until(lambda: _last(client, "run.resumed"))
        assert resumed["samples"] == saved > 3 * 240
        until(lambda: client.get("/runs/1").json()["progress"]["samples"] > saved)
        client.post("/runs/1/stop")
        assert ended(client, 1)["attempts"] == 2


def _last(client, kind):  # type: ignore[no-untyped-def]
    found = client.get("/events", params={"kind": kind, "limit": 500}).json()["items"]
    return found[-1]["data"] if found else None


def test_what_a_task_refuses_fails_the_run_with_the_reason(served: Served) -> None:
    with served.client() as client:
        submit(client, job(task={"name": "littoral.tasks.digits", "widht": 1}), world="simulated")
        run = ended(client, 1)
        assert run["state"] == "failed" and "no option 'widht'" in run["reason"]
        folder = served.manager.launcher.folder(1)
        assert folder.exists() and client.delete("/runs/1").status_code == 204
        assert not folder.exists() and client.get("/runs/1").status_code == 404


def test_devices_apps_stores_strikes_and_pardon(served: Served) -> None:
    with served.client() as client:
        fault = {"at": "10 ms", "node": "w-1", "kind": "crash", "for": "10 ms"}
        struck_once = job(on_failure="deepedge", faults=[fault], target={"epochs": 40})
        submit(client, struck_once, world="simulated", timing_only=True)
        assert ended(client, 1)["state"] == "finished"
        (struck,) = [row for row in client.get("/devices").json()["items"] if row["strikes"]]
        assert (struck["name"], struck["strikes"]) == ("w-1", 1)
        assert client.post("/devices/w-1/pardon").json() == {"device": "w-1", "forgiven": 1}
        assert not [row for row in client.get("/devices").json()["items"] if row["strikes"]]
        assert client.post("/devices/nobody/pardon").status_code == 404
        assert [app["name"] for app in client.get("/apps", params={"continuum": "bench"}).json()["items"]] == ["spin"]
        assert client.get("/continuums/bench/stores").json()["items"][0]["samples"] == 100
        assert len(CONTINUUM["devices"]) == 2 and client.get("/continuums/bench").json()["devices"] == 3


def test_a_line_that_a_power_cut_tore_says_nothing_and_breaks_nothing(served: Served) -> None:
    with served.client() as client:
        submit(client, job(), world="simulated", timing_only=True)
        ended(client, 1)
        feed = served.manager.launcher.folder(1) / "live.jsonl"
        whole = len(feed.read_bytes().splitlines())
        feed.write_bytes(feed.read_bytes() + b'{"event": {"ev' + bytes(5) + b'\n{"devices": {}}\n')
        page = client.get("/runs/1/feed", params={"limit": 500}).json()
        assert page["items"][-1] == {"devices": {}} and len(page["items"]) in (whole, whole + 1)
        assert client.get("/runs/1/feed", params={"after": page["next"]}).json() == {"items": [], "next": None}
        assert client.get("/runs/1/feed", params={"after": "3"}).status_code == 422
        assert client.get("/runs/1/feed", params={"after": str(2**63 - 1)}).status_code == 422
        follower = Follower(feed.parent)
        follower.skip_history()
        assert follower.progress.share == 1.0


def test_short_epochs_do_not_flood_the_events(served: Served) -> None:
    with served.client() as client:
        submit(client, {**endless(), "target": {"epochs": 40}}, world="simulated", timing_only=True)
        run = ended(client, 1)
        told = client.get("/events", params={"limit": 500, "kind": "run.epoch"}).json()["items"]
        assert len(told) <= 2 + (run["ended"] - run["started"])
        assert told[-1]["data"]["left"] == 0
        assert len(told) + sum(event["data"].get("left_out", 0) for event in told) == 40
