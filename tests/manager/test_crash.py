"""The manager killed and its folder copied in the middle of things, by the benchmark that does it at length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CRASH = Path(__file__).parents[2] / "benchmarks" / "crash.py"


def crashed(folder: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, CRASH, "--folder", folder, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["tracebacks in the log"] == 0 and found["checks"] > 50
    return found


@pytest.mark.long
def test_killed_at_random_moments_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    found = crashed(tmp_path, "--kills", "3", "--seed", "1", "--queue", "1")
    assert found["samples acknowledged"] > 0 and found["states in the end"]["updates"]["promoted"] >= 1


@pytest.mark.long
def test_copies_as_a_power_cut_leaves_them_open_clean(tmp_path: Path) -> None:
    found = crashed(tmp_path, "--power-cut", "5", "--seed", "1", "--queue", "1")
    assert set(found["images"]) == {"exact", "torn", "checkpoint", "lying disk", "live"}
