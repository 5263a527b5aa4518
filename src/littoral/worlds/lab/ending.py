"""How helpers end that run as long as their stdin is open."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any

_PATIENCE_S = 5.0


def end(helper: subprocess.Popen[Any]) -> None:
    """Ask it to end, and see to it."""
    assert helper.stdin is not None
    with suppress(BrokenPipeError):  # it is gone, and something was still to be written
        helper.stdin.close()
    try:
        helper.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()
