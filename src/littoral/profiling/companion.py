"""A process of ours beside what is measured: it reads its order in one line on stdin, and ends when stdin closes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec


def start(module: str, order: Any) -> subprocess.Popen[bytes]:
    """``python -m module``, with its order; what it tells is on stdout."""
    command = [sys.executable, "-m", module]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    process.stdin.flush()
    return process
