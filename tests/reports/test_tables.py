from __future__ import annotations

import pytest

from littoral.reports.overview import headline, report_of
from littoral.reports.story import read_story
from littoral.reports.tables import ranking_of, rows_of, summaries_of

WORLDS = ("simulated", "processes+lab")


def runs(write_run, times: dict[str, list[float | None]]) -> list:
    stories = []
    for planner, found in times.items():
        for seed, time in enumerate(found):
            plan = _plan(planner)
            folder = write_run(f"{planner}-{seed}", seed=seed, plan=plan, result={"time_to_target_s": time})
            stories.append(read_story(folder))
    return rows_of(stories)


def _plan(planner: str) -> dict:
    from materials import PLAN

    return PLAN | {"planner": planner}


def test_seeds_of_a_variant_are_summarised(write_run) -> None:
    (summary,) = summaries_of(runs(write_run, {"fair": [8.0, 10.0, 12.0]}))
    assert summary.seeds == (0, 1, 2)
    assert summary.time_to_target_s is not None
    assert (summary.time_to_target_s.mean, summary.time_to_target_s.deviation) == (10.0, 2.0)


def test_the_fastest_mean_wins_and_the_ratio_is_to_the_slowest(write_run) -> None:
    ranking = ranking_of(runs(write_run, {"fair": [8.0, 12.0], "greedy": [2.0, 3.0]}))
    assert [time for _, time in ranking.order] == [2.5, 10.0]
    assert ranking.ratio == 4.0


def test_a_variant_that_reached_the_target_only_sometimes_is_not_ranked(write_run) -> None:
    ranking = ranking_of(runs(write_run, {"lucky": [1.0, None], "steady": [5.0, 5.0]}))
    assert [variant for variant, _ in ranking.order] == ["parameter_server mode=asp, steady"]
    assert ranking.unreached == ("parameter_server mode=asp, lucky",)


def test_the_prediction_is_judged_on_the_epochs_that_were_finished(write_run) -> None:
    finished = {"epochs": 2, "predicted_s": 9.0, "measured_s": 10.0}
    (row,) = rows_of([read_story(write_run(result={"predicted": {"finished": finished}}))])
    assert (row.predicted_epochs, row.predicted_s) == (2, 9.0)
    assert row.prediction_error == pytest.approx(-0.1)
    (unfinished,) = rows_of([read_story(write_run("other", result={"predicted": {"finished": None}}))])
    assert unfinished.prediction_error is None


def test_runs_of_different_worlds_are_not_averaged(write_run) -> None:
    runs = [read_story(write_run(world, seed=i, result={"world": world})) for i, world in enumerate(WORLDS)]
    assert [summary.variant for summary in summaries_of(rows_of(runs))] == [
        "parameter_server mode=asp, fair (simulated)", "parameter_server mode=asp, fair (processes+lab)"
    ]  # fmt: skip
    assert [row.variant for row in rows_of(runs[:1])] == ["parameter_server mode=asp, fair"]
    assert "Worlds: simulated, processes+lab." in headline(report_of(runs))


def test_equal_runs_keep_labels_apart(write_run) -> None:
    rows = rows_of([read_story(write_run("one")), read_story(write_run("two"))])
    assert len({row.label for row in rows}) == 2
    assert len({row.variant for row in rows}) == 1


def test_runs_of_different_jobs_are_not_averaged(write_run) -> None:
    """Same name, same strategy, but one continuum is faster: that is another job, not another seed."""
    from materials import CONTINUUM

    other = CONTINUUM | {"links": [CONTINUUM["links"][0] | {"down": "9 MB/s"}, CONTINUUM["links"][1]]}
    rows = rows_of([read_story(write_run("one")), read_story(write_run("two", seed=2, continuum=other))])
    assert [row.variant.split(":")[0] for row in rows] == ["demo", "demo #2"]
