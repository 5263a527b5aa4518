from __future__ import annotations

from pathlib import Path

import pytest

from littoral.errors import InputError
from littoral.events import (
    Computed,
    Evaluated,
    Event,
    FaultInjected,
    NodeLost,
    NodeStarted,
    Resumed,
    RunFinished,
)
from littoral.reports.story import read_story


def test_gaps_of_a_living_worker_are_waits(write_run) -> None:
    story = read_story(write_run())
    assert story.waiting["w1"] == [(3.5, 6.0), (7.0, 10.0)]
    assert "ps-1" not in story.waiting


def test_a_crashed_node_is_lost_from_the_crash_on_and_does_not_wait(write_run) -> None:
    story = read_story(write_run())
    assert story.lost == {"w2": [(4.0, 8.0)]}
    assert story.waiting["w2"] == [(3.0, 4.0), (8.0, 10.0)]
    assert [happening.mark for happening in story.happenings] == ["fault", "lost", "returned", "finished"]


def test_a_server_that_is_relaunched_is_lost_no_longer(write_run) -> None:
    crash = [FaultInjected(4.0, "crash", "c", 2.0, 0.5), NodeLost(5.5, "ps-1", "crashed")]
    again = [Resumed(5.5, 3.0, 5), NodeStarted(6.0, "ps-1"), RunFinished(10.0, "epochs")]
    story = read_story(write_run(events=[NodeStarted(0.0, "ps-1"), *crash, *again]))
    assert story.lost == {"ps-1": [(4.0, 6.0)]}


def test_without_detail_nothing_is_taken_for_waiting(write_run) -> None:
    story = read_story(write_run(detail=False))
    assert not story.detailed
    assert story.waiting == {}
    assert story.lost == {"w2": [(4.0, 8.0)]}


def test_what_a_resumed_run_repeats_counts_once(write_run) -> None:
    folder = write_run(events=[])
    before: list[Event] = [
        NodeStarted(0.0, "w1"),
        Computed(2.0, "w1", 0.0, 5, 0, 1.0),
        Evaluated(5.0, 9, 0.7, 1.0),
    ]
    again: list[Event] = [Resumed(2.0, 2.0, 5), Evaluated(4.0, 9, 0.7, 1.0), RunFinished(6.0, "epochs")]
    _append(folder, [*before, *again])
    story = read_story(folder)
    assert [evaluation.t for evaluation in story.evaluations] == [4.0]
    assert story.computing == {"w1": [(0.0, 2.0)]}
    assert story.seconds == 6.0


def test_a_folder_or_its_journal_may_be_named(write_run) -> None:
    folder = write_run()
    assert read_story(folder) == read_story(folder / "journal.jsonl")


@pytest.mark.parametrize("missing", ["journal.jsonl", "result.json"])
def test_a_missing_file_is_named_with_a_remedy(write_run, missing: str) -> None:
    folder = write_run()
    (folder / missing).unlink()
    with pytest.raises(InputError) as caught:
        read_story(folder)
    assert missing in str(caught.value) and caught.value.remedy


def _append(folder: Path, events: list[Event]) -> None:
    from littoral.journal import Journal

    with Journal(folder / "journal.jsonl", append=True) as journal:
        for event in events:
            journal.write(event)
