from __future__ import annotations

from pathlib import Path

import pytest

from littoral.commands import Stop
from littoral.errors import InputError
from littoral.events import Evaluated, Resumed, RunFinished, Used
from littoral.journal import Journal, history, read_journal

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


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    told = [
        Evaluated(t=1.0, samples=1, accuracy=0.1, loss=1.0),
        Evaluated(t=5.0, samples=5, accuracy=0.5, loss=1.0),  # lost with the process
        Resumed(t=2.0, since=2.0, samples=2),
        Evaluated(t=3.0, samples=3, accuracy=0.3, loss=1.0),
        Resumed(t=4.0, since=2.0, samples=2),  # a rollback within the run: time went on
        Evaluated(t=6.0, samples=6, accuracy=0.6, loss=1.0),
    ]
    with Journal(path) as journal:
        for event in told:
            journal.write(event)
    assert history(path, until=4.5) == [told[0], told[2], told[3], told[4]]
