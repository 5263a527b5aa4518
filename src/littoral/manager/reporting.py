"""A run's report as a page, made by a process of its own and kept beside the run once that has ended."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from littoral.errors import InputError
from littoral.manager.children import command, environment
from littoral.manager.refusals import Conflict

_LONGEST_S = 120.0
_turn = threading.Lock()  # a report fills a core


def report(folder: Path, *, ended: bool) -> str:
    """The page of a run's folder."""
    page = folder / "report.html"
    with _turn:
        if not (page.exists() and ended):
            _write(folder, page)
        return page.read_text(encoding="utf-8")


def _write(folder: Path, page: Path) -> None:
    if not (folder / "journal.jsonl").exists():
        raise Conflict("the run has no journal yet", remedy="wait until it has begun")
    asked = command("littoral", "report", str(folder.resolve()), "--out", str(page.resolve()))
    try:
        done = subprocess.run(
            asked, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST_S, text=True
        )
    except subprocess.TimeoutExpired as error:
        raise Conflict(f"the report took more than {_LONGEST_S:g} s", remedy="make it with: littoral report") from error
    if done.returncode != 0:
        raise InputError(f"no report: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
