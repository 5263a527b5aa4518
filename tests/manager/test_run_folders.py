"""Folders of runs go when there are too many or they are too old, but none that somebody needs."""

from __future__ import annotations

from pathlib import Path

from given import ended, job, submit, until
from serving import serving

from littoral.manager.manager import Manager, ManagerOptions
from littoral.manager.run_folders import Keep
from littoral.manager.runs import RunState


def test_a_run_without_its_folder_says_so_and_has_its_result(tmp_path: Path) -> None:
    with serving(tmp_path, ManagerOptions(keep=Keep(most=0))) as served, served.client() as client:
        submit(client, job(), world="simulated", timing_only=True)
        assert ended(client, 1)["state"] == "finished"
        (tmp_path / "runs" / ".gone-7" / "logs").mkdir(parents=True)  # a kill came in the middle
        served.manager.folders.sweep()  # unless the manager, which sweeps once a minute, was sooner
        until(lambda: client.get("/events", params={"kind": "run.cleared"}).json()["items"])
        until(lambda: not list((tmp_path / "runs").glob("*")))
        for part in ("journal", "feed", "log", "report"):
            gone = client.get(f"/runs/1/{part}")
            assert gone.status_code == 404 and "no files" in gone.json()["detail"], part
        assert client.get("/runs/1/result").json()["result"]["reason"] == "epochs"
        assert client.get("/events", params={"kind": "run.cleared"}).json()["items"][0]["subject"] == "runs/1"


def test_what_somebody_needs_stays_whatever_its_age(tmp_path: Path) -> None:
    manager = Manager(tmp_path, ManagerOptions(keep=Keep(most=None, seconds=100.0)), now=lambda: 1000.0)
    rows = [  # number, state, when it ended, whether it has a checkpoint, and whether it goes
        (1, RunState.FINISHED, 10.0, True, True),
        (2, RunState.FINISHED, 950.0, True, False),  # young
        (3, RunState.FAILED, 10.0, True, False),  # could be resumed
        (4, RunState.FAILED, 10.0, False, True),
        (5, RunState.QUEUED, None, True, False),
        (6, RunState.RUNNING, None, True, False),
        (7, RunState.FINISHED, 10.0, True, False),  # made what is served
        (8, RunState.FINISHED, 10.0, True, True),  # made what was served before: its weights are elsewhere
        (9, RunState.FINISHED, 10.0, True, False),  # of an update that judges it
        (10, RunState.FAILED, 10.0, True, True),  # of an update that has ended
    ]
    with manager.database.write() as connection:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        for number, state, when, checkpoint, _ in rows:
            (tmp_path / "runs" / str(number)).mkdir(parents=True)
            if checkpoint:
                (tmp_path / "runs" / str(number) / "checkpoint.safetensors").touch()
            connection.execute(
                "INSERT INTO runs (number, job, name, world, state, created, ended) VALUES (?, 1, 'x', 'y', ?, 0, ?)",
                (number, state, when),
            )
        connection.execute("INSERT INTO stores (name, kind, most_samples, most_bytes, held_out, created) "
                           "VALUES ('s', '{}', 10, 100000, 0.2, 0)")  # fmt: skip
        connection.execute("INSERT INTO models VALUES ('m', 't', '{}', 's', '{}', '{}', 0)")
        for number, run, state in ((1, 8, "retired"), (2, 7, "current")):
            connection.execute(
                "INSERT INTO versions VALUES ('m', ?, 'f', NULL, ?, ?, '', NULL, NULL, 0)", (number, str(run), state)
            )
        connection.execute(
            "INSERT INTO updates (model, why, state, labelled, run, created) VALUES ('m', '', 'judging', 0, '9', 0)"
        )
        connection.executemany("INSERT INTO update_runs VALUES (?, ?)", [("a", 7), ("b", 8), ("c", 9), ("d", 10)])
    assert manager.folders.sweep() == [number for number, *_, goes in rows if goes]
    assert manager.folders.sweep() == []
    manager.stop()
