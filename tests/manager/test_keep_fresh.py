"""The example of a model that is kept fresh, shortened to one drift: everything in it is real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytest.importorskip("cv2")
ROOT = Path(__file__).parent.parent.parent
SHORT = ["--phases", "2", "--seconds", "4", "--rate", "150"]


@pytest.mark.long
def test_the_model_decays_and_recovers(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples/keep-fresh/run.py", *SHORT, "--out", tmp_path]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LITTORAL_")}
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=300)
    assert done.returncode == 0, done.stderr
    story = json.loads((tmp_path / "accuracy.json").read_text())
    found = story["summary"]
    assert found["before"] > 0.9 and found["decayed"] < 0.7, done.stdout
    assert found["recovered"] > 0.8 and found["without_updates"] < 0.7, done.stdout
    assert found["failed"] == 0 and found["sift_pictures"] > 0, done.stdout
    first, second = story["updates"]  # the second may be no better than the first
    assert first["workers"] == ["full", "half", "quarter"] and "drift" in first["why"]
    assert first["state"] == "promoted" and second["why"].startswith("follow-up of update 2")
    assert {1, 2} <= {batch["version"] for batch in story["batches"]} <= {1, 2, 3}
    assert "promoted, " in done.stdout and "update 2 running" in done.stderr
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64," in (tmp_path / "accuracy.html").read_text()
    left = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
    assert not [line for line in left if line and str(tmp_path) in " ".join(line)]
