"""Three strikes: counted across runs, forgiven slowly, and kept in a file that is either whole or refused."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.events import Event, RunStarted
from littoral.job import Job
from littoral.run import Options, run_job
from littoral.rundir import RunFolder
from littoral.strikes import LIMIT, PROBATION, Record, Strikes
from littoral.testing import fail_at, small_job


def struck(times: int, node: str = "a") -> Strikes:
    strikes = Strikes().begin_run()
    for _ in range(times):
        strikes = strikes.struck(node)
    return strikes


def test_the_third_strike_excludes_and_the_second_does_not() -> None:
    assert [struck(times).excluded("a") for times in range(5)] == [False, False, False, True, True]
    assert not struck(3).excluded("b")


def test_strikes_of_earlier_runs_count() -> None:
    assert struck(2).begin_run().struck("a").excluded("a")


def test_a_change_leaves_the_value_as_it_was() -> None:
    before = struck(2)
    before.struck("a")
    before.begin_run()
    before.begin_run().finished_run(["a"])
    assert before == struck(2)


def test_who_is_excluded_sits_out_some_runs_and_is_then_on_probation() -> None:
    strikes, out = struck(LIMIT), []
    for _ in range(PROBATION + 1):
        strikes = strikes.begin_run()
        out.append(strikes.excluded("a"))
    assert out == [True] * PROBATION + [False]
    assert strikes.count("a") == LIMIT - 1
    assert strikes.struck("a").excluded("a")  # one more loss is enough


def test_after_another_loss_the_probation_begins_anew() -> None:
    strikes = struck(LIMIT)
    for _ in range(PROBATION + 1):
        strikes = strikes.begin_run()
    strikes = strikes.struck("a").begin_run()
    assert strikes.excluded("a")


def test_a_run_without_a_loss_takes_one_strike_away() -> None:
    strikes = struck(2)
    assert strikes.finished_run(["a", "b"]).count("a") == 2  # it was lost in this very run
    strikes = strikes.begin_run().finished_run(["a", "b"])
    assert strikes.count("a") == 1
    strikes = strikes.begin_run().finished_run(["b"])
    assert strikes.count("a") == 1  # it took no part
    strikes = strikes.begin_run().finished_run(["a"])
    assert strikes == Strikes(runs=4)


nodes = st.dictionaries(st.text(min_size=1), st.builds(Record, st.integers(1, 9), st.integers(0, 5)), max_size=4)


@given(st.builds(Strikes, st.integers(5, 1000), nodes))
def test_written_and_read_is_the_same(strikes: Strikes) -> None:
    assert Strikes.from_json(strikes.to_json(), "x") == strikes


def test_the_file_can_be_read_by_people() -> None:
    assert struck(1).to_json() == (
        '{\n  "runs": 1,\n  "nodes": {\n    "a": {\n      "strikes": 1,\n      "lost_in_run": 1\n    }\n  }\n}\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "nonsense",
        b"\xff\xfe",
        '{"runs": 1, "nodes": {"a": {"strikes": 1',
        '{"runs": -1}',
        '{"runs": "1"}',
        '{"runs": 1, "nods": {}}',
        '{"runs": 1, "nodes": {"a": 3}}',
        '{"runs": 1, "nodes": {"a": {"strikes": 0, "lost_in_run": 1}}}',
        '{"runs": 1, "nodes": {"a": {"strikes": 1}}}',
        '{"runs": 1, "nodes": {"a": {"strikes": 1, "lost_in_run": 2}}}',
        '{"runs": 1, "nodes": {"a": {"strikes": 1, "lost_in_run": 1, "name": "a"}}}',
    ],
)
def test_a_damaged_file_is_refused_by_name_with_a_remedy(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"^runs/\.strikes\.json: not a record of strikes: .*; .*delete it"):
        Strikes.from_json(text, "runs/.strikes.json")


def test_changes_are_made_to_what_others_left() -> None:
    before = Strikes(5, {"a": Record(2, 4), "b": Record(1, 4)})
    mine = before.struck("a").struck("c").finished_run(["b"])
    theirs = before.begin_run().struck("a").struck("b")
    assert mine.rebased(before, before) == mine
    assert mine.rebased(before, theirs) == Strikes(
        6, {"a": Record(4, 6), "b": Record(1, 6), "c": Record(1, 5)}
    )  # fmt: skip
    forgiven = mine.rebased(before, Strikes())  # somebody deleted the file
    assert forgiven == Strikes(5, {"a": Record(1, 5), "c": Record(1, 5)})
    assert Strikes.from_json(forgiven.to_json(), "x") == forgiven


def strike(folder: Path) -> None:
    (folder / "trying").touch()
    RunFolder(folder / "run").change_strikes(lambda strikes: strikes.begin_run().struck("b"))


def test_a_process_that_writes_while_another_does_loses_nothing(tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=strike, args=(tmp_path,))

    def slowly(strikes: Strikes) -> Strikes:
        other.start()
        while not (tmp_path / "trying").exists():
            time.sleep(0.01)
        time.sleep(0.5)  # enough for the other to be done, if it does not wait
        return strikes.begin_run().struck("a")

    keep = RunFolder(tmp_path / "run")
    keep.change_strikes(slowly)
    other.join(60)
    assert other.exitcode == 0
    assert keep.strikes() == Strikes(2, {"a": Record(1, 1), "b": Record(1, 2)})


def failing(node: str) -> Job:
    return replace(small_job(faults=[fail_at(node, 0.5, back_after_s=0.1)]), on_failure="deepedge")


def test_a_run_within_the_time_of_another_keeps_its_strikes(tmp_path: Path) -> None:
    options = Options(timing_only=True)

    def meanwhile(event: Event, tally: Any) -> None:
        if isinstance(event, RunStarted):
            run_job(failing("w-2"), tmp_path / "inner", options)

    run_job(failing("w-1"), tmp_path / "outer", options, watch=meanwhile)
    strikes = RunFolder(tmp_path / "outer").strikes()
    assert strikes == Strikes(2, {"w-1": Record(1, 1), "w-2": Record(1, 2)})
