from __future__ import annotations

from pathlib import Path

import pytest

from littoral.commands import Stop
from littoral.errors import InputError
from littoral.events import Evaluated, RunFinished, Used
from littoral.journal import Journal, read_journal

EVENTS = [
    Used(t=1.0, node="a", samples=4, spans=((0, "a", 0, 4),)),
    Evaluated(t=1.0, samples=4, accuracy=0.5, loss=1.25),
    RunFinished(t=2.0, reason="epochs"),
]


def write(path: Path, *, append: bool = False, detail: bool = True) -> None:
    with Journal(path, append=append, detail=detail) as journal:
        for event in EVENTS:
            journal.write(event)
        journal.write(Stop("epochs"))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path)
    assert list(read_journal(path)) == EVENTS


def test_without_detail_steps_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, detail=False)
    assert list(read_journal(path)) == EVENTS[1:]


def test_a_line_cut_short_by_a_crash_is_ignored_and_removed_on_resuming(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event":"Used","t":3.0,"no')
    assert list(read_journal(path)) == EVENTS
    write(path, append=True)
    assert path.read_bytes() == whole + whole


def test_a_foreign_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path)
    path.write_bytes(path.read_bytes() + b'{"event":"Nonsense","t":1}\n')
    with pytest.raises(InputError, match=r"journal.jsonl:5: not an event"):
        list(read_journal(path))


def test_a_missing_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the journal"):
        list(read_journal(tmp_path / "none.jsonl"))
