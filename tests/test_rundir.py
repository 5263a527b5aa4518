"""What several runs in one folder share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from littoral.learning import reference
from littoral.learning.task import load_task
from littoral.rundir import RunFolder
from littoral.testing import small_job


def test_two_runs_that_measure_their_yardstick_at_once_keep_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(small_job(), accuracy=0.5)
    task = load_task(job.task, job.task_options)

    def measured(task: Any, target: float, seed: int, **rest: Any) -> int:
        if seed == 0:  # meanwhile another run measures and writes
            RunFolder(tmp_path / "b").reference(job, task, 1)
        return 100 + seed

    monkeypatch.setattr(reference, "samples_to_target", measured)
    assert RunFolder(tmp_path / "a").reference(job, task, 0) == 100
    assert sorted(json.loads((tmp_path / ".reference.json").read_text()).values()) == [100, 101]
