"""How the manager starts Python: with what it imports itself, nothing of the child's folder, and less urgent."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def command(module: str, *arguments: str) -> list[str]:
    """``python -m module``, without its working folder among the places to import from."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Ours, with relative places to import from made absolute: the child works elsewhere."""
    places = [str(Path(place).resolve()) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def step_back() -> None:
    """Let the manager's own work go first, in this process and those it starts: requests should not wait for it."""
    os.nice(10)
