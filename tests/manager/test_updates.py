"""Updates: one at a time, each step once, going on after a kill; judged by the gate and kept either way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from freshness import Clock, Life, Stream, alive, ingest

from littoral.manager.gate import Gate
from littoral.manager.refusals import Conflict
from littoral.manager.updates import Updates
from littoral.tasks.stored import frozen_sizes


def feed(life: Life, count: int = 600, *, drifted: bool = False, seed: int = 0) -> None:
    ingest(life.cycle.samples, "digits-store", *Stream(seed).take(count, drifted=drifted))


def test_the_first_update_trains_from_scratch_and_is_promoted(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model()
        feed(life)
        update = life.cycle.updates.get(life.update())
        assert update.state == "promoted" and "the first version" in update.reason
        version = life.cycle.registry.version("digits", 1)
        assert version.accuracy is not None and version.accuracy > 0.8
        assert version.run == "update-1-0" and update.time_s is not None and update.time_s > 0
        assert not life.cycle.updates.folder_of(1).exists()  # its frozen data is no longer needed
        kinds = [kind for kind, _ in life.told]
        assert kinds == [f"update.{state}" for state in ("asked", "planned", "running", "judging", "promoted")]


def test_the_second_begins_with_the_first(tmp_path: Path) -> None:
    """One epoch of tiny steps cannot teach anything: what it knows is what it began with."""
    slow = {"target": {"epochs": 1}, "strategy": "allreduce", "recipe": {"lr": 1e-6}}
    with alive(tmp_path) as life:
        life.model()
        feed(life)
        life.update()
        model = life.cycle.registry.get("digits")
        with life.database.write() as connection:
            from littoral.manager.model_records import Training

            rules = Training(least_samples=50, job=slow)
            life.cycle.registry.change(connection, "digits", model.gate, rules)
        life.update()
        first, second = life.cycle.registry.versions("digits")
        assert second.parent == 1 and second.accuracy == pytest.approx(first.accuracy)


def test_a_worse_version_is_kept_and_refused(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model(gate=Gate(least_samples=20, margin=0.5))
        feed(life)
        life.update()
        number = life.update()
        update = life.cycle.updates.get(number)
        assert update.state == "refused" and "were needed" in update.reason
        assert [v.state for v in life.cycle.registry.versions("digits")] == ["current", "refused"]
        _, verdict = life.cycle.judge("digits", 2)
        assert not verdict.passed
        with life.database.write() as connection:  # an operator knows better
            assert life.cycle.promote(connection, "digits", 2, None).state == "current"


def test_too_few_held_out_samples_refuse(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model(gate=Gate(least_samples=1000))
        feed(life)
        assert "1000 are needed" in life.cycle.updates.get(life.update()).reason


def test_too_few_samples_fail_and_say_so(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model()
        feed(life, 20)
        update = life.cycle.updates.get(life.update())
        assert update.state == "failed" and "at least 50 and 1 are needed" in update.reason


def test_one_at_a_time(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model()
        with life.database.write() as connection:
            number = life.cycle.updates.request(connection, "digits", "first", 0.0).number
        with pytest.raises(Conflict, match="is being updated"), life.database.write() as connection:
            life.cycle.updates.request(connection, "digits", "second", 0.0)
        with life.database.write() as connection:
            assert life.cycle.updates.give_up(connection, number, 1.0, "enough").state == "given up"
        with life.database.write() as connection:
            life.cycle.updates.request(connection, "digits", "third", 0.0)


def test_a_failed_run_is_tried_again_as_often_as_asked(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model(attempts=3)
        feed(life)
        life.trainer.fail = 2
        assert life.cycle.updates.get(life.update()).state == "promoted"
        assert life.trainer.started == ["update-1-0", "update-1-1", "update-1-2"]
        life.trainer.fail = 3
        update = life.cycle.updates.get(life.update())
        assert update.state == "failed" and "asked to fail" in update.reason


def test_rehearsal_mixes_in_older_samples(tmp_path: Path) -> None:
    with alive(tmp_path) as life:
        life.model(window=200, rehearsal=0.25)
        feed(life, 600)
        feed(life, 300, drifted=True)
        with life.database.write() as connection:
            number = life.cycle.updates.request(connection, "digits", "asked", 0.0).number
        life.cycle.updates.advance(number, 0.0)
        folder = life.cycle.updates.folder_of(number) / "data"
        train, _ = frozen_sizes(folder)
        assert train == 267  # 200, and a quarter of the whole
        job = life.cycle.updates.get(number).job
        assert job is not None
        from littoral.learning.task import load_task

        task = dict(job["task"])
        x = load_task(task.pop("name"), task).data().train_x.numpy()
        dark = np.mean(x, axis=(1, 2, 3)) > 0.5  # inverted digits are mostly ink
        assert dark[67:].all() and not dark[:67].all()


def test_killed_between_any_two_steps_it_goes_on_and_runs_once(tmp_path: Path) -> None:
    """Every step is done by another process, as it were; and each twice, the first time cut off before its commit."""
    with alive(tmp_path) as life:
        life.model()
        feed(life)
        with life.database.write() as connection:
            number = life.cycle.updates.request(connection, "digits", "asked", 0.0).number
    states = ["waiting"]
    for _ in range(200):
        with alive(tmp_path, Clock()) as life:
            _cut_off(life.cycle.updates, number)
            update = life.cycle.updates.advance(number, 1.0)
            if update.state != states[-1]:
                states.append(update.state)
        if update.ended is not None:
            break
    assert states == ["waiting", "planned", "running", "judging", "promoted"]
    with alive(tmp_path) as life:
        assert [v.number for v in life.cycle.registry.versions("digits")] == [1]
        assert [path.name for path in (tmp_path / "runs").iterdir()] == ["update-1-0"]


class _Killed(BaseException):
    pass


def _cut_off(updates: Updates, number: int) -> None:
    """Do a step up to its first write, and no further."""
    database = updates._database

    def killed() -> None:
        raise _Killed

    database.write, kept = killed, database.write  # type: ignore[method-assign,assignment]
    try:
        updates.advance(number, 0.5)
    except _Killed:
        pass
    finally:
        database.write = kept  # type: ignore[method-assign]
