from __future__ import annotations

import re
from pathlib import Path

import pytest

from littoral.errors import InputError, MissingExtra
from littoral.events import Computed, NodeLost, RunFinished
from littoral.reports import page
from littoral.reports.page import write_report

pytest.importorskip("plotly")


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of library say nothing about the page."""
    monkeypatch.setattr(page, "_plotly_js", lambda: "/* plotly.js */")


def html_of(*folders: Path) -> str:
    (written,) = write_report(list(folders), folders[0].parent / "report.html")
    return written.read_text()


def test_the_page_asks_the_network_for_nothing(write_run) -> None:
    html = html_of(write_run("one"), write_run("two", seed=2))
    assert re.findall(r"https?://", html) == []
    assert not re.search(r"<(link|img|iframe|object)\b|@import|url\(|<script[^>]*\ssrc", html)
    assert "default-src 'none'" in html


def test_every_section_has_its_say(write_run) -> None:
    html = html_of(write_run())
    titles = "Results, Learning, Where it runs, Plan and outcome, Timeline, Use of the network, Background apps"
    for title in (*titles.split(", "), "What happened", "Reproduce"):
        assert f"{title}</h" in html, title
    assert "littoral run job.yaml --seed 1" in html


def test_sections_without_data_are_left_out(write_run) -> None:
    html = html_of(write_run(detail=False, evaluated=False))
    for title in ("Learning", "Timeline", "Use of the network"):
        assert f"{title}</h" not in html, title
    assert "What happened</h3>" in html
    assert "littoral run job.yaml --seed 1 --timing-only" in html


def test_a_narrow_page_names_the_figures_of_wide_tables(write_run) -> None:
    """There a row is a card, for which each cell must know its head; small tables stay as they are."""
    html = html_of(write_run("one"), write_run("two", seed=2))
    assert html.count('<td data-head="predicted"') == 2
    assert html.count('<table class="widest">') == 1
    for kind in ("wide", "widest"):
        assert f".{kind} tbody td::before" in html
    small = [table for table in re.findall(r"<table.*?</table>", html, re.S) if table.startswith("<table>")]
    assert small and not any("data-head" in table for table in small)


def test_only_the_first_of_several_runs_is_open(write_run) -> None:
    html = html_of(write_run("one"), write_run("two", seed=2), write_run("three", seed=3))
    assert html.count('<details class="run" open>') == 1
    assert html.count('<details class="run">') == 2
    assert "mean ± standard deviation" in html


def test_names_from_files_cannot_become_markup(write_run) -> None:
    from materials import CONTINUUM, PLAN

    evil = "<img src=x onerror=alert(1)>"
    worker = PLAN["workers"][0] | {"name": evil}
    predicted = PLAN["predicted"] | {"terms": [{"name": evil, "seconds": 1.0, "formula": evil}]}
    plan = PLAN | {"planner": evil, "workers": [worker], "reasons": [evil], "predicted": predicted}
    continuum = CONTINUUM | {"devices": [device | {"label": evil} for device in CONTINUUM["devices"]]}
    events = [Computed(2.0, evil, 0.0, 5, 0, 1.0), NodeLost(3.0, evil, evil), RunFinished(9.0, evil)]
    html = html_of(write_run(name=evil, job_name=evil, continuum=continuum, plan=plan, events=events))
    assert "<img" not in html
    assert html.count("&lt;img") > 10


def test_a_broken_run_leaves_no_file(write_run, tmp_path: Path) -> None:
    good, broken = write_run("good"), write_run("broken")
    (broken / "journal.jsonl").write_text('{"event":"Nonsense","t":0}\n')
    out = tmp_path / "out" / "report.html"
    with pytest.raises(InputError, match=r"journal\.jsonl:1"):
        write_report([good, broken], out)
    with pytest.raises(InputError, match="no such run folder"):
        write_report([tmp_path / "nowhere"], out)
    assert not out.parent.exists()


def test_a_failed_write_leaves_the_old_page(write_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        write_report([write_run()], out)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_without_plotly_the_extra_is_named(write_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"littoral\[report\]"):
        write_report([write_run()], tmp_path / "report.html")


def test_pictures_stand_beside_the_page(write_run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_report([write_run()], tmp_path / "report.html", png=True)
    names = [path.name for path in written]
    assert names == ["report.html", "report-accuracy.png", "report-timeline.png", "report-network.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[1:])
