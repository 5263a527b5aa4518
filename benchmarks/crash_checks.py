"""What must hold in a manager's folder after a kill, and when everything has come to its end."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from served import Served
from watching_states import opened

if TYPE_CHECKING:
    from crash import Ledger


@dataclass
class Findings:
    """What was looked at, and what was wrong."""

    checks: int = 0
    repeated: int = 0
    asked_again: int = 0
    wrong: list[str] = field(default_factory=list)
    ended: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """In brief."""
        return f"{self.checks} checks, {len(self.wrong)} wrong" + (f": {self.wrong[-1]}" if self.wrong else "")

    def report(self, ledger: Ledger) -> dict[str, Any]:
        """All of it."""
        kinds = Counter(path for path, _, _ in ledger.answers.values())
        return {
            "samples acknowledged": len(ledger.samples), "requests acknowledged": dict(kinds),
            "refused": dict(ledger.refused), "strikes expected": len(ledger.strikes),
            "answers compared": self.repeated, "asked again without an answer": self.asked_again,
            "states in the end": self.ended, "checks": self.checks, "wrong": self.wrong,
        }  # fmt: skip


def check(data: Path, ledger: Ledger, findings: Findings) -> None:
    """Everything acknowledged is there, and nothing is there twice."""
    connection = opened(data)
    with ledger.lock:
        samples, answers, strikes = set(ledger.samples), dict(ledger.answers), dict(ledger.strikes)

    def expect(holds: bool, what: str) -> None:
        findings.checks += 1
        if not holds:
            findings.wrong.append(what)

    connection.execute("BEGIN")  # one view of everything, for the manager may be at work
    expect(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "integrity_check")
    expect(not connection.execute("PRAGMA foreign_key_check").fetchall(), "foreign_key_check")
    kept = {row["id"] for row in connection.execute("SELECT id FROM samples")}
    expect(samples <= kept, f"{len(samples - kept)} samples lost, such as {sorted(samples - kept)[:3]}")
    kept_by, received = connection.execute("SELECT total(kept), total(received) FROM stores").fetchone()
    expect(kept_by == received == len(kept), f"{kept_by} and {received} counted, {len(kept)} there")
    _answers(connection, answers, expect)
    _updates(data, connection, expect)
    _versions(data, connection, expect)
    _strikes(data, connection, strikes, expect)
    connection.close()


def _answers(connection: sqlite3.Connection, answers: dict[str, tuple[str, Any, Any]], expect: Any) -> None:
    there = {
        table: {row[0] for row in connection.execute(f"SELECT number FROM {table}")}
        for table in ("jobs", "runs", "plans", "updates")
    }
    given = {table: [] for table in there}  # type: dict[str, list[int]]
    for path, _, answer in answers.values():
        if path == "/jobs":
            given["jobs"].append(answer["job"]["number"])
            given["runs"].append(answer["run"]["number"])
        elif path == "/plans":
            given["plans"] += [plan["number"] for plan in answer["plans"]]
        elif path.endswith("/update"):
            given["updates"].append(answer["number"])
    for path, kind in (("/promote", "model.promoted"), ("/rollback", "model.rolled-back")):
        asked = sum(one[0].endswith(path) for one in answers.values())
        told = connection.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,)).fetchone()[0]
        expect(told >= asked, f"{asked} times {path} acknowledged, {told} there")
    for table, numbers in given.items():
        expect(set(numbers) <= there[table], f"{table} lost: {set(numbers) - there[table]}")
        expect(len(numbers) == len(set(numbers)), f"{table}: a number was given twice")


def _updates(data: Path, connection: sqlite3.Connection, expect: Any) -> None:
    """None ran twice: one run per attempt, one beginning and one end in its journal, one version, one end told."""
    runs = Counter(row["key"].split("-")[1] for row in connection.execute("SELECT key FROM update_runs"))
    numbers = [row["run"] for row in connection.execute("SELECT run FROM update_runs")]
    expect(len(numbers) == len(set(numbers)), "two updates share a run")
    for row in connection.execute("SELECT number, state, attempt, run, version FROM updates"):
        expect(runs[str(row["number"])] <= row["attempt"] + 1, f"update {row['number']} has too many runs")
        if row["state"] in ("promoted", "refused"):
            made = connection.execute("SELECT count(*) FROM versions WHERE run = ?", (row["run"],)).fetchone()[0]
            expect(made == 1, f"update {row['number']} made {made} versions")
    told = connection.execute("SELECT kind, data FROM events WHERE kind IN ('update.promoted', 'update.refused')")
    ends = Counter(json.loads(row["data"])["update"] for row in told)
    expect(not [n for n, times in ends.items() if times > 1], f"updates ended twice: {ends}")
    done = Counter(row["subject"] for row in connection.execute("SELECT subject FROM events WHERE kind='run.finished'"))
    expect(not [n for n, times in done.items() if times > 1], f"runs ended twice: {done}")
    for row in connection.execute("SELECT number, state FROM runs"):
        _journal(data / "runs" / str(row["number"]) / "journal.jsonl", row["state"], expect)


def _journal(path: Path, state: str, expect: Any) -> None:
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    begun, ended = (
        sum(f'"event":"{kind}"'.encode() in line for line in lines) for kind in ("RunStarted", "RunFinished")
    )
    expect(begun <= 1 and ended <= 1, f"{path}: {begun} beginnings, {ended} ends")
    if state == "finished":
        expect(begun == ended == 1, f"{path}: finished with {begun} beginnings and {ended} ends")


def _versions(data: Path, connection: sqlite3.Connection, expect: Any) -> None:
    for row in connection.execute("SELECT model, number, file FROM versions"):
        path = data / "weights" / row["model"] / row["file"]
        right = path.exists() and row["file"].startswith(hashlib.sha256(path.read_bytes()).hexdigest())
        expect(right, f"version {row['number']} has no whole weights")
    current = connection.execute("SELECT count(*) FROM versions WHERE state = 'current'").fetchone()[0]
    expect(current <= 1, f"{current} versions are current")


def _strikes(data: Path, connection: sqlite3.Connection, strikes: dict[str, int], expect: Any) -> None:
    """A device that was lost in a finished run has its strike."""
    path = data / "runs" / ".strikes.json"
    known = json.loads(path.read_text())["nodes"] if path.exists() else {}
    finished = {row["number"] for row in connection.execute("SELECT number FROM runs WHERE state = 'finished'")}
    for device, run in strikes.items():
        if run in finished:
            expect(device in known, f"the strike of {device} in run {run} is lost")


def settled(served: Served, ledger: Ledger, findings: Findings) -> None:
    """Wait until every run and update has ended, and check once more."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        connection = opened(served.data)
        open_ = connection.execute(
            "SELECT (SELECT count(*) FROM runs WHERE ended IS NULL) "
            "+ (SELECT count(*) FROM updates WHERE ended IS NULL)"
        ).fetchone()[0]
        states = {
            table: dict(Counter(row["state"] for row in connection.execute(f"SELECT state FROM {table}")))
            for table in ("runs", "updates", "versions")
        }
        bad = connection.execute("SELECT number, reason FROM runs WHERE state = 'failed'").fetchall()
        bad += connection.execute("SELECT number, reason FROM updates WHERE state = 'failed'").fetchall()
        connection.close()
        if not open_:
            break
        time.sleep(0.5)
    findings.ended = states
    findings.checks += 2
    if open_:
        findings.wrong.append(f"{open_} runs and updates did not end")
    findings.wrong += [f"failed: {tuple(row)}" for row in bad]
    check(served.data, ledger, findings)
