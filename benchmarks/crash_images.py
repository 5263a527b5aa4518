"""Images of a manager's folder at random moments, damaged as a power cut damages, and opened again.

    exact        every process frozen, every file copied: what the page cache held
    torn         and whatever was not flushed is damaged: the log's end after its last commit, drafts of weights, the
                 last lines of feeds and journals, and small files of runs under way
    checkpoint   and the pages that a checkpoint was copying into the database are zeroed there
    lying disk   the log cut anywhere behind what was checkpointed, as if its last flushes had been lost: old, but one
                 consistent moment. (A log cut before that is older than the database, and SQLite promises nothing.)
    live         copied file by file while all goes on, which promises nothing (backups are for that); only counted

Everything acknowledged before the copy must be in the first three.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from crash_checks import Findings, check
from littoral.errors import LittoralError
from littoral.manager.manager import Manager
from served import Served, client_of, ok

if TYPE_CHECKING:
    from crash import Ledger

KINDS = ("exact", "torn", "checkpoint", "lying disk", "live")
_WAL = "littoral.db-wal"


def cut(
    served: Served,
    ledger: Ledger,
    count: int,
    dice: random.Random,
    folder: Path,
    tell: Callable[[str], None],
    *,
    serve_last: bool,
) -> dict[str, Any]:
    """Take and open so many images; let one more be served, if asked."""
    findings, taken, live = Findings(), Counter[str](), Counter[str]()
    for turn in range(count):
        time.sleep(dice.uniform(0.0, 1.0))
        kind, image = KINDS[turn % len(KINDS)], folder / str(turn)
        before = _copy_live(served, ledger, image) if kind == "live" else _copy_frozen(served, ledger, image)
        {"torn": _tear, "checkpoint": _half_checkpoint, "lying disk": _forget}.get(kind, _leave)(image, dice)
        taken[kind] += 1
        if kind == "live":
            live["clean" if _clean(image, before) else "not clean"] += 1
        else:
            _open(image, before, findings, kind)
        shutil.rmtree(image)
        tell(f"image {turn + 1}, {kind}, {len(before.samples)} samples acknowledged: {findings.line()}")
    if serve_last:
        _serve_one(served, ledger, folder / "last", findings)
    return {
        "images": dict(taken), "live copies": dict(live), "samples acknowledged": len(ledger.samples),
        "checks": findings.checks, "wrong": findings.wrong,
    }  # fmt: skip


# -- taking -----------------------------------------------------------------------------------------------------------


def _copy_frozen(served: Served, ledger: Ledger, image: Path) -> Ledger:
    family = served.family()
    for process in family:
        _signal(process, signal.SIGSTOP)
    try:
        before = _acknowledged(ledger)
        shutil.copytree(served.data, image)
    finally:
        for process in family:
            _signal(process, signal.SIGCONT)
    return before


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _copy_live(served: Served, ledger: Ledger, image: Path) -> Ledger:
    before = _acknowledged(ledger)
    with suppress(shutil.Error):  # a folder that went meanwhile; all others are copied
        shutil.copytree(served.data, image, ignore_dangling_symlinks=True, copy_function=_copy_if_there)
    return before


def _copy_if_there(source: str, target: str) -> None:
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        return  # a draft that was renamed meanwhile


def _acknowledged(ledger: Ledger) -> Ledger:
    with ledger.lock:
        return type(ledger)(samples=set(ledger.samples), answers=dict(ledger.answers), strikes=dict(ledger.strikes))


# -- damaging ---------------------------------------------------------------------------------------------------------


def _leave(image: Path, dice: random.Random) -> None:
    """As it is."""


def _tear(image: Path, dice: random.Random) -> None:
    _damage_end(image / _WAL, _frames(image / _WAL)[1], dice)
    for draft in (image / "weights").glob("*/.*.tmp"):
        _damage_end(draft, 0, dice)
    for number in _under_way(image):
        ended = (image / "runs" / str(number) / "result.json").exists()  # written when the journal is on the disk
        for path in (image / "runs" / str(number)).glob("*.jsonl"):
            if ended and path.name == "journal.jsonl":
                continue
            _damage_end(path, max(path.stat().st_size - 3000, path.read_bytes().find(b"\n") + 1), dice)
        for name in ("result.json", "plan.json", "job.yaml", "order.json"):
            if dice.random() < 0.3:
                _damage_end(image / "runs" / str(number) / name, 0, dice)


def _under_way(image: Path) -> list[int]:
    connection = sqlite3.connect(image / "littoral.db")
    found = [row[0] for row in connection.execute("SELECT number FROM runs WHERE ended IS NULL")]
    connection.close()
    return found


def _damage_end(path: Path, start: int, dice: random.Random) -> None:
    """Behind ``start``: cut somewhere, zeros from somewhere on, or both."""
    if not path.exists() or path.stat().st_size <= start:
        return
    size = path.stat().st_size
    with path.open("r+b") as file:
        if dice.random() < 0.5:
            size = dice.randint(start, size)
            file.truncate(size)
        if dice.random() < 0.5:
            place = dice.randint(start, size)
            file.seek(place)
            file.write(bytes(size - place))


def _half_checkpoint(image: Path, dice: random.Random) -> None:
    pages, _, size = _frames(image / _WAL)
    with (image / "littoral.db").open("r+b") as file:
        whole = os.fstat(file.fileno()).st_size
        for page in pages:
            if page * size <= whole and dice.random() < 0.5:
                file.seek((page - 1) * size + dice.randrange(size // 2))
                file.write(bytes(size // 2))


def _forget(image: Path, dice: random.Random) -> None:
    path = image / _WAL
    size = path.stat().st_size
    kept = 32 + _checkpointed(image) * (24 + _frames(path)[2])
    os.truncate(path, dice.randint(min(kept, size), size))


def _checkpointed(image: Path) -> int:
    """Frames of the log that are in the database already: nBackfill of the wal-index, behind its two headers."""
    index = (image / "littoral.db-shm").read_bytes()
    return int(struct.unpack("=I", index[96:100])[0])


def _frames(path: Path) -> tuple[set[int], int, int]:
    """Pages of the log's committed transactions, where the last one ends, and the size of a page."""
    content = path.read_bytes() if path.exists() else b""
    if len(content) < 32:
        return set(), 0, 4096
    size, salts = struct.unpack(">I", content[8:12])[0], content[16:24]
    committed: set[int] = set()
    pages: set[int] = set()
    end, place = 32, 32
    while place + 24 + size <= len(content) and content[place + 8 : place + 16] == salts:
        page, commit = struct.unpack(">II", content[place : place + 8])
        pages.add(page)
        place += 24 + size
        if commit:
            end, committed = place, committed | pages
            pages = set()
    return committed, end, size


# -- opening ----------------------------------------------------------------------------------------------------------


def _open(image: Path, before: Ledger, findings: Findings, kind: str) -> None:
    """As the manager does at its start, and check."""
    manager = Manager(image)
    manager.life.tidy()
    manager.stop()
    if kind == "lying disk":
        before = _prefix(image, before, findings)
    check(image, before, findings)
    stray = [path for path in (image / "weights").glob("*/*") if path.name.startswith(".")]
    findings.checks += 1
    if stray:
        findings.wrong.append(f"{kind}: drafts are left: {stray}")


def _prefix(image: Path, before: Ledger, findings: Findings) -> Ledger:
    """Old is allowed, holes are not: samples came one batch after the other."""
    connection = sqlite3.connect(image / "littoral.db")
    kept = [row[0] for row in connection.execute("SELECT id FROM samples ORDER BY number")]
    connection.close()
    findings.checks += 1
    kept = [id for id in kept if id.startswith("s")]  # the others were there before
    if kept != [f"s{i}" for i in range(len(kept))]:
        findings.wrong.append("lying disk: what is there is not what came first")
    return type(before)()


def _clean(image: Path, before: Ledger) -> bool:
    findings = Findings()
    try:
        _open(image, before, findings, "live")
    except (sqlite3.Error, LittoralError, OSError):
        return False
    return not findings.wrong


def _serve_one(served: Served, ledger: Ledger, image: Path, findings: Findings) -> None:
    """The last image is served elsewhere: what was under way there must end well."""
    before = _copy_frozen(served, ledger, image)
    served.kill(everybody=True)
    _tear(image, random.Random(0))
    other = Served(image, image.with_name("log.txt"))
    address = other.start()
    try:
        with client_of(address) as client:
            deadline = time.monotonic() + 120
            found = _work(client)
            while time.monotonic() < deadline and any(not one["ended"] for one in found):
                time.sleep(0.3)
                found = _work(client)
            findings.checks += 1
            bad = [(one["number"], one["state"], one["reason"]) for one in found
                   if not one["ended"] or one["state"] == "failed"]  # fmt: skip
            if bad:
                findings.wrong.append(f"served from an image: {bad}")
    finally:
        other.kill(everybody=True)
    check(image, before, findings)


def _work(client: Any) -> list[dict[str, Any]]:
    """Updates and runs, at one moment: a trigger may ask for more at the next."""
    return [one for path in ("/models/digits/updates", "/runs")
            for one in ok(client.get(path, params={"limit": 500}))["items"]]  # fmt: skip
