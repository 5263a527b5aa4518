"""A few hundred requests by schemathesis, and all probes, by the benchmark that sends thousands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


def test_strangers_are_refused_with_a_reason(tmp_path: Path) -> None:
    options = ["--requests", "200", "--examples", "3", "--phases", "fuzzing"]
    done = subprocess.run([sys.executable, FUZZ, "--folder", tmp_path, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["schemathesis"]["requests"] >= 200 and found["probes"]["climbing names"] > 500
