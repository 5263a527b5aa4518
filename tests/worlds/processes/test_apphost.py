"""Background apps in processes of their own: one that fails does not fail in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from littoral.continuum.app import App
from littoral.errors import RunFailed
from littoral.events import AppChecked, EpochFinished, Event
from littoral.job import Job
from littoral.testing import live, small_job
from littoral.worlds.processes.launch import Forge

EPOCHS = 60
BROKEN = """
class Broken:
    def __init__(self, setting):
        self.frames = 0

    def prepare(self):
        pass

    def work(self):
        self.frames += 1
        if self.frames == 3:
            raise ValueError("the lens cap is on")

    def close(self):
        {close}
"""


def beside_training(run: str, epochs: int) -> Job:
    app = App(name="camera", on=("w-1",), period_s=0.02, deadline_s=0.02, work_s=0.001, demand=0.1, run=run)
    job = small_job(strategy="allreduce", epochs=epochs, task={"samples": 960})
    return replace(job, continuum=replace(job.continuum, apps=(app,)))


def write_app(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> str:
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    return f"{name}:Broken"


def test_an_app_that_raises_ends_the_run_while_it_trains(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_app("broken_camera", tmp_path, monkeypatch, BROKEN.format(close="pass"))
    seen: list[Event] = []
    with pytest.raises(RunFailed, match=r"(?s)camera@w-1's program failed:.*ValueError: the lens cap is on"):
        live(beside_training(run, EPOCHS), launcher=forge, watch=seen.append)
    finished = [event for event in seen if isinstance(event, EpochFinished)]
    assert len(finished) < EPOCHS


def test_an_app_that_cannot_even_be_found_ends_the_run(forge: Forge) -> None:
    with pytest.raises(RunFailed, match=r"(?s)camera@w-1's program failed:.*no module no_such_camera"):
        live(beside_training("no_such_camera", EPOCHS), launcher=forge)


def test_an_app_that_fails_when_all_is_over_spoils_nothing(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = BROKEN.replace("== 3", "< 0").format(close='raise ValueError("the lid is stuck")')
    run = write_app("stuck_camera", tmp_path, monkeypatch, code)
    story = live(beside_training(run, EPOCHS), launcher=forge, folder=tmp_path)
    assert story.reason == "epochs"
    assert len(story.of(AppChecked)) == 1
    assert "the lid is stuck" in (tmp_path / "logs" / "camera@w-1.log").read_text()
