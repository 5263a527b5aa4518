"""A profile's page: every figure, as many points as rows, curves inside what was measured, nothing half written."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from materials import PLAN

from littoral import cli
from littoral.errors import InputError
from littoral.planning.plan import Plan
from littoral.profiling.automl import Budget
from littoral.profiling.estimators import estimators, fit
from littoral.profiling.profile import Profile, save
from littoral.profiling.rows import State, TrainingRow
from littoral.reports import page
from littoral.reports.profile_numbers import beside_like, outer_thirds, response, series_of, speedups
from littoral.reports.profile_page import PANELS, write_profile_report

pytest.importorskip("plotly")

EVIL = "<b>pi</b> & co"
TIMES = {
    "fair": [4.0, 6.0, 8.0, math.nan],
    "deepedge": [4.0, 3.0, math.inf, 2.0],
    "search": [2.0, 3.0, 4.0, 2.0],
}


def window(kind: str, number: int, dice: np.random.Generator, gpu: float) -> TrainingRow:
    batch, before = 2 ** (number % 4 + 1), State(cpu=dice.uniform(0.1, 0.8), memory=dice.uniform(0.1, 0.5), gpu=gpu)
    during = replace(before, cpu=0.9, memory=before.memory + 0.01 * batch)
    return TrainingRow(
        point=number, device=kind, kind=kind, task="digits", batch=batch, workers=1 + number % 3,
        batch_sum=batch * (1 + number % 3), batch_max=batch, before=before, server=State(cpu=dice.uniform(0, 0.7)),
        compute_s=(0.01 + 0.08 / batch) / (1 - before.cpu), update_s=0.1 + 0.02 * (number % 3), during=during, steps=9,
    )  # fmt: skip


@cache
def fitted() -> Profile:
    """24 windows on a kind with a GPU, 20 on one without and with a name full of markup."""
    dice = np.random.default_rng(0)
    carded = [window("tx2", i, dice, dice.uniform(0.1, 0.8)) for i in range(24)]
    plain = [window(EVIL, i, dice, 0.0) for i in range(20)]
    return fit(Profile(training=(*carded, *plain)), budget=Budget(trials=1))


def plans() -> list[tuple[Plan, float]]:
    import msgspec

    plan = msgspec.convert(PLAN, Plan)
    dear = replace(plan, predicted=replace(plan.predicted, time_s=plan.predicted.time_s / 2, cost_usd=3.0))
    return [(dear, 0.7), (plan, 1.0)]


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of library say nothing about the page."""
    monkeypatch.setattr(page, "_plotly_js", lambda: "/* plotly.js */")


@pytest.fixture
def html(tmp_path: Path) -> str:
    report = write_profile_report(fitted(), tmp_path / "p.html", times=TIMES, fronts=[("a job", plans())])
    return report.read_text()


def figures(html: str, anchor: str) -> list[list[dict[str, Any]]]:
    """The traces of each figure of a section."""
    section = re.search(rf'<section id="{anchor}">(.*?)</section>', html, re.S)
    assert section, anchor
    found = re.findall(r'<script type="application/json">(.*?)</script>', section[1], re.S)
    return [json.loads(text)["data"] for text in found]


def marked(traces: list[dict[str, Any]]) -> int:
    return sum(len(trace["x"]) for trace in traces if trace.get("mode") == "markers")


def test_every_figure_has_its_section(html: str) -> None:
    counts = {f"figure-{n}": len(figures(html, f"figure-{n}")) for n in (3, 4, 5, 9, 10, 11)}
    assert counts == {
        "figure-3": 1,
        "figure-4": 1,
        "figure-5": 3,
        "figure-9": len(PANELS),
        "figure-10": 1,
        "figure-11": 1,
    }
    assert "EstComputeTime" in html and "3.433 %" in html and 'href="#table-1"' in html
    assert len(figures(html, "front-1")) == 1 and "Quick, cheap or fair: a job" in html


def test_every_row_is_a_point(html: str) -> None:
    assert sum(len(trace["x"]) for trace in figures(html, "figure-3")[0]) == 44
    assert [marked(traces) for traces in figures(html, "figure-5")] == [44, 44, 24]
    assert [marked(traces) for traces in figures(html, "figure-9")] == [24, 44, 44, 44, 44, 44, 44, 44]


def test_without_a_card_there_is_nothing_about_one(tmp_path: Path) -> None:
    chosen = {key: choice for key, choice in fitted().choices.items() if key.kind == EVIL}
    plain = Profile(training=tuple(row for row in fitted().training if row.kind == EVIL), choices=chosen)
    html = write_profile_report(plain, tmp_path / "p.html").read_text()
    assert len(figures(html, "figure-5")) == 2 and len(figures(html, "figure-9")) == len(PANELS) - 1
    assert html.count("No kind has a GPU") == 2
    assert "figure-10" not in html and "figure-11" not in html and "front-1" not in html


def test_curves_stay_inside_what_was_measured_and_go_the_known_way() -> None:
    tx2 = next(one for one in series_of(fitted()) if one.kind == "tx2")
    models = estimators(fitted(), "tx2", "digits")
    for panel in PANELS:
        found = response(fitted(), models, tx2, panel.function, panel.column)
        assert found.grid[0] == found.x.min() and found.grid[-1] == found.x.max(), panel.head
        assert (found.low <= found.mean).all() and (found.mean <= found.high).all(), panel.head
        assert found.used or np.ptp(found.mean) == 0, panel.head
    batch = response(fitted(), models, tx2, "compute", "batch")
    assert batch.used and batch.mean[-1] < batch.mean[0]
    assert len(response(fitted(), models, tx2, "update", "workers").grid) == 3


def test_experiments_without_a_plan_are_left_out(html: str) -> None:
    curves = {trace["name"]: trace["x"] for trace in figures(html, "figure-10")[0]}
    assert curves == {"fair": [4.0, 6.0, 8.0], "deepedge": [2.0, 3.0, 4.0], "search": [2.0, 2.0, 3.0, 4.0]}
    assert speedups(TIMES, "deepedge") == [1.0, 2.0] and speedups(TIMES, "search") == [2.0, 2.0, 2.0]
    assert "search: mean 2, above 1.5 in 100 % of 3 experiments; deepedge: mean 1.5, above 1.5 in 50 % of 2" in html


def test_a_baseline_that_breaks_rules_is_said_to(tmp_path: Path) -> None:
    broken = {"fair": 3, "search": 0}
    html = write_profile_report(fitted(), tmp_path / "p.html", times=TIMES, broken=broken).read_text()
    assert "Equal shards break a rule, such as an app&#x27;s deadline, in 3 of them" in html
    html = write_profile_report(fitted(), tmp_path / "p.html", times=TIMES, broken={"fair": 0}).read_text()
    assert "Equal shards break" not in html


def test_contention_is_told_from_the_batch() -> None:
    """Busy windows have larger batches here and take less per sample; beside their like they take longer."""
    row = replace(fitted().training[0], update_s=0.0)
    pairs = [(0.1, 1), (0.1, 1), (0.1, 64), (0.5, 1), (0.5, 64), (0.5, 64), (0.9, 64), (0.9, 64), (0.9, 1)]
    rows = [replace(row, batch=batch, before=State(cpu=cpu), compute_s=(1 + cpu) / batch) for cpu, batch in pairs]
    little, much = outer_thirds(rows)
    assert (little.windows, much.windows) == (3, 3) and (little.cpu, much.cpu) == (0.1, 0.9)
    assert much.step_s < little.step_s
    assert (little.quartiles[1], much.quartiles[1]) == pytest.approx((1.1 / 1.3, 1.9 / 1.5))
    assert math.isnan(beside_like([*rows, replace(row, batch=2)])[-1])


def test_plans_of_a_front_carry_their_numbers(html: str) -> None:
    (dots,) = figures(html, "front-1")[0]
    assert dots["text"] == ["1", "2"] and dots["marker"]["color"] == [0.7, 1.0] and dots["y"][0] == 3.0


def test_names_cannot_become_markup(html: str) -> None:
    assert "<b>" not in html and "&lt;b&gt;pi&lt;/b&gt; &amp; co" in html
    assert re.findall(r"https?://", html) == [] and "default-src 'none'" in html


@pytest.mark.parametrize("missing", [{"choices": {}}, {"training": ()}, {"choices": {}, "training": ()}])
def test_a_profile_with_nothing_to_show_is_refused(missing: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_profile_report(replace(fitted(), **missing), tmp_path / "p.html")
    assert list(tmp_path.iterdir()) == []


def command(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["littoral", "profile", "report", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code if isinstance(ended.value.code, int) else 0


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(fitted(), tmp_path / "mine")
    out = tmp_path / "r.html"
    assert command(monkeypatch, str(tmp_path / "mine"), "--out", str(out), "--experiments", "0") == 0
    assert "<h1>Profile mine</h1>" in out.read_text() and f"report: {out}" in capsys.readouterr().err


def test_a_label_names_the_task_only_where_its_kind_has_several() -> None:
    profile = fitted()
    tx2 = [row for row in profile.training if row.kind == "tx2"]
    moved = [replace(row, task="other") for row in tx2]
    elsewhere = replace(profile, training=(*(row for row in profile.training if row.kind != "tx2"), *moved))
    both = replace(profile, training=(*profile.training, *moved))
    assert {one.label for one in series_of(elsewhere)} == {one.kind for one in series_of(elsewhere)}
    assert {"tx2, digits", "tx2, other"} < {one.label for one in series_of(both)}


def test_the_command_refuses_what_was_not_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(replace(fitted(), choices={}), tmp_path / "mine")
    out = tmp_path / "r.html"
    assert command(monkeypatch, str(tmp_path / "mine"), "--out", str(out)) == 2
    assert "littoral profile fit" in capsys.readouterr().err and not out.exists()
