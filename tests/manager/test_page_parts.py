"""The page's parts that need no browser: a run's course in bounded memory, plots, forms, the frame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from given import CONTINUUM, job
from hypothesis import given as supposing
from hypothesis import strategies as st

from littoral.continuum.load import load_continuum
from littoral.errors import InputError
from littoral.manager.feed import FILE
from littoral.manager.manager import Manager
from littoral.manager.page.course import BINS, Bins, Course, Courses
from littoral.manager.page.documents import Wrong, wrong_of
from littoral.manager.page.frame import framed
from littoral.manager.page.graph import draw
from littoral.manager.page.loads import Loads, add_loads, loads_of
from littoral.manager.page.pieces import ago, table
from littoral.manager.page.plots import Axis, Line, plot
from littoral.manager.page.view import Said, View, Visit
from littoral.manager.page.views import VIEWS
from littoral.manager.page.written import line_of, plain
from littoral.manager.paging import Window
from littoral.manager.tokens import Role
from littoral.profiling.rows import State as Load

EXAMPLES = Path(__file__).parents[2] / "examples"
NASTY = "<script>alert('x')</script>&\"'"


@supposing(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 100)), max_size=40))
def test_bins_keep_every_amount(added: list[tuple[float, float, float]]) -> None:
    bins = Bins()
    for start, length, amount in added:
        bins.add("node", start, start + length, amount)
    assert sum(bins.amounts.get("node", [])) == pytest.approx(sum(amount for _, _, amount in added))
    assert all(len(row) == BINS for row in bins.amounts.values())


def progress(t: float, **parts: Any) -> dict[str, Any]:
    return {"progress": {"t": t, "busy": {}, "sent": {}, "missed": {}, **parts}}


def evaluated(t: float, accuracy: float) -> dict[str, Any]:
    return {"event": {"event": "Evaluated", "t": t, "accuracy": accuracy}}


def test_a_course_follows_its_feed_and_goes_back_with_it(tmp_path: Path) -> None:
    path = tmp_path / FILE
    course = Course(path)
    course.catch_up()
    assert course.now == 0
    lines = [progress(1, busy={"a": 0.5}), evaluated(1, 0.3), progress(2, sent={"a>b": 100}, missed={"app": 2})]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"progress"')  # cut short
    course.catch_up()
    assert course.now == 2 and course.accuracy == [(1, 0.3)]
    assert (course.busy.totals(), course.sent.totals()) == ({"a": 0.5}, {"a>b": 100})
    resumed = {"event": {"event": "Resumed", "t": 1.0, "since": 1.0, "samples": 3}}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"progress"\n\n')
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in (resumed, evaluated(1.5, 0.4)))
    course.catch_up()
    assert course.accuracy == [(1, 0.3), (1.5, 0.4)] and course.now == 1.0
    assert sum(course.missed.totals().values()) < 2


def test_loads_are_shares_and_rates() -> None:
    rows = [progress(t, busy={"w": 0.25}, sent={"w>s": 1000})["progress"] for t in (0.0, 0.5, 1.0)]
    found = Loads()
    add_loads(found, rows, {"w": "pi", "s": "hub"}, {"w": "street", "s": "hall"})
    assert found.busy["pi"] == pytest.approx(0.5)
    assert found.rate("hall", "street") == pytest.approx(2000) and found.rate("hall", "hall") == 0


@supposing(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1)), max_size=30))
def test_plots_stay_within_their_picture(points: list[tuple[float, float]]) -> None:
    x = Axis(low=0, high=1e5, show=str, title=NASTY)
    picture = ElementTree.fromstring(plot(NASTY, x, Axis(low=0, high=1, show=str), [Line(name=NASTY, points=points)]))
    width, height = (float(part) for part in picture.attrib["viewBox"].split()[2:])
    for dot in picture.iter("circle"):
        assert 0 <= float(dot.attrib["cx"]) <= width and 0 <= float(dot.attrib["cy"]) <= height


@pytest.mark.parametrize("name", ["edge-cluster", "eleven-regions", "fog-and-cloud", "micro-clouds"])
def test_every_example_is_drawn(name: str, tmp_path: Path) -> None:
    continuum = load_continuum(EXAMPLES / name / "continuum.yaml")
    manager = Manager(tmp_path)
    with manager.database.write() as connection:
        manager.continuums.put(connection, continuum.name, continuum)
    devices = manager.devices.listed(Window(limit=500)).items
    ElementTree.fromstring(f"<div>{draw(continuum, devices, loads_of(manager, continuum))}</div>")
    manager.stop()


def test_yaml_of_forms_keeps_keys_as_text() -> None:
    assert plain("apps: [{on: hub, work: 1e-3}]") == {"apps": [{"on": "hub", "work": 0.001}]}
    for wrong in ("- a list", "a: !!python/object:x {}", "a: [", "", "a: &x [*x]"):
        with pytest.raises(InputError) as refused:
            plain(wrong)
        assert line_of(refused.value, wrong) in (1, 2)


@pytest.mark.parametrize(
    ("found", "key", "line"),
    [("unknown key 'epoch'", None, 3), ("something", "target", 2), ("unknown 'nobody'", None, None)],
)
def test_the_line_to_blame(found: str, key: str | None, line: int | None) -> None:
    assert line_of(InputError(found, key=key), "name: a\ntarget:\n  epoch: 3\n") == line


def test_times_are_told_as_people_do() -> None:
    told = [ago(1000.0, 1000.0 + passed) for passed in (1, 12, 200, 7300, 200_000, -90)]
    words = [one.partition(">")[2].removesuffix("</time>").replace("&nbsp;", " ") for one in told]
    assert words == ["just now", "10 s ago", "3 min ago", "2 h ago", "2 d ago", "in 1 min"]
    assert 'title="1970-01-01 00:16:40 UTC"' in told[0]


def test_heads_are_escaped() -> None:
    assert NASTY not in table(NASTY, [NASTY], [["cell"]])


# -- every view, empty and full, for both roles -----------------------------------------------------------------------


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path)
    (tmp_path / "drafts").mkdir()
    yield found
    found.stop()


def visit(manager: Manager, role: Role, **place: str) -> Visit:
    with manager.database.write() as connection:
        token = manager.tokens.create(connection, f"{NASTY[1:7]}-{role}-{manager.now()}", role).token
    return Visit(manager, Courses(manager.launcher.folder), token, place)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_every_view_of_an_empty_manager_says_what_to_do(manager: Manager, role: Role) -> None:
    places = {"number": "1", "name": "none", "first": "1", "last": "2"}
    for view in VIEWS:
        shown = framed(view, visit(manager, role, **places))
        assert "<h1>" in shown and shown.count('id="said"') == 1, view.path
    wrong = framed(VIEWS[2], visit(manager, role, number="../../etc"))
    assert "there is nothing at" in wrong


def test_what_people_write_cannot_become_markup(manager: Manager) -> None:
    with manager.database.write() as connection:
        manager.continuums.put(connection, "bench", manager.continuums.check("bench", CONTINUUM))
    given = replace(manager.jobs.check(job()), job={**job(), "name": NASTY})
    with manager.database.write() as connection:
        manager.jobs.submit(connection, given)
        manager.events.append(connection, "test.said", NASTY, {NASTY: NASTY})
    for view in VIEWS:
        shown = framed(view, visit(manager, Role.OPERATOR, number="1", name=NASTY, first="1", last="1", state=NASTY))
        assert "<script>alert" not in shown, view.path


# -- acts -------------------------------------------------------------------------------------------------------------


def act(what: str, by: Visit, **fields: str) -> Said:
    """Do an act of the first view that has it."""
    return next(view.acts[what] for view in VIEWS if what in view.acts)(by, fields)


def refused(what: str, by: Visit, **fields: str) -> Wrong:
    """What a form shows after an act on its document."""
    assert act(what, by, **fields) == Said("")
    found = wrong_of(by)
    assert found is not None
    return found


def view_of(path: str) -> View:
    return next(view for view in VIEWS if view.path == path)


DEVICES = view_of("/devices")


def test_a_continuum_is_kept_and_a_device_pardoned(manager: Manager) -> None:
    operator = visit(manager, Role.OPERATOR)
    assert "3 devices at 1 site." in act("put", operator, name="bench", document=json.dumps(CONTINUUM)).text
    assert "cannot be a name" in refused("put", operator, name="../x", document=json.dumps(CONTINUUM)).text
    wrong = refused("put", operator, name="x", document="links:\n- {trace: /etc/passwd}")
    assert "trace" in wrong.text and wrong.line == 2
    manager.monitor.book.change_strikes(lambda strikes: strikes.begin_run().struck("hub").struck("hub"))
    manager.monitor.receive("hub", 1.0, Load(cpu=0.25))
    for role, buttons in ((Role.VIEWER, 0), (Role.OPERATOR, 1)):
        shown = framed(DEVICES, visit(manager, role))
        assert "just now" in shown and "25&nbsp;% busy" in shown
        assert "2 of 3" in shown and "on probation" in shown and shown.count('data-act="pardon"') == buttons
    manager.monitor.book.change_strikes(lambda strikes: strikes.struck("hub"))
    assert "sits out 3 more runs" in framed(DEVICES, operator)
    assert act("pardon", operator, device="hub").text == "hub is forgiven 3 strikes."
    assert "0 of 3" in framed(DEVICES, operator)
    with pytest.raises(InputError, match="no device"):
        act("pardon", operator, device=NASTY)


def test_a_model_is_made(manager: Manager) -> None:
    operator, models = visit(manager, Role.OPERATOR), view_of("/models")
    act("put", operator, name="bench", document=json.dumps(CONTINUUM))
    document = models.show(operator).partition("maxlength")[2].partition(">")[2].partition("</textarea>")[0]
    assert act("create", operator, document=document).go == "/models/digits"
    kept = manager.life.registry.get("digits")
    assert kept.training.job["continuum"] == "bench" and manager.life.stores.counts("digits")["kept"] == 0
    for wrong, told, line in (
        (document, "there is a store 'digits' already", 1),
        ("name: a\ntsk: littoral.tasks.digits", "unknown key 'tsk'; did you mean 'task'", 2),
        ("name: ../x\ntask: littoral.tasks.digits", "name: ", 1),
        ("name: a\ntask: os.path", "not allowed here", 2),
        ("name: a\ntask: littoral.tasks.digits\ngate: {flor: 1}", "flor", 3),
        ("name: a\ntask: littoral.tasks.digits\ntraining: {job: {continuum: nowhere}}", "nowhere", 3),
    ):
        found = refused("create", operator, document=wrong)
        assert told in found.text and found.line == line, found
    assert 'data-act="create"' not in framed(models, visit(manager, Role.VIEWER))


def test_a_waiting_run_is_stopped_and_resumed(manager: Manager) -> None:
    operator = visit(manager, Role.OPERATOR, number="1")
    act("put", operator, name="bench", document=json.dumps(CONTINUUM))
    given = {"document": json.dumps(job()), "world": "simulated"}
    assert act("run", operator, **given, seed="7", timing_only="on").go == "/runs/1"
    assert manager.jobs.get(1).options == {"world": "simulated", "lab": False, "seed": 7, "timing_only": True}
    for wrong, told in (
        ({"seed": "x"}, "the seed is 'x'"),
        ({"lab": "on"}, "the lab is for the processes world; leave out 'lab' or 'world'"),
        ({"world": "ray", "timing_only": "on"}, "timing only makes sense in virtual time; use the simulated world"),
    ):
        found = refused("run", operator, **{**given, **wrong})
        assert told in found.text and not found.line
    act("stop", operator)
    assert manager.runs.get(1).state == "stopped"
    with pytest.raises(InputError, match="is stopped"):
        act("stop", operator)
    act("resume", operator)
    assert manager.runs.get(1).state == "queued"


def test_a_secret_is_shown_until_it_is_hidden(manager: Manager) -> None:
    operator, tokens = visit(manager, Role.OPERATOR), VIEWS[-1]
    tokens.acts["create"](operator, {"name": "eye", "role": "viewer", "lasts": "2 h"})
    secret = operator.kept["secret"]
    assert secret in framed(tokens, operator) and secret not in framed(tokens, visit(manager, Role.OPERATOR))
    tokens.acts["hide"](operator, {})
    assert secret not in framed(tokens, operator)
    tokens.acts["revoke"](operator, {"token": "eye"})
    assert manager.tokens.find(secret) is None
