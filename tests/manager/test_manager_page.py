"""The page in a real browser: a real ``littoral serve``, Debian's chromium without a head."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from given import CONTINUUM, endless, job, submit, until
from playwright.sync_api import Browser, Page, expect, sync_playwright
from safetensors.torch import save

from littoral.manager.page.views import VIEWS
from littoral.tasks.digits import Digits

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (apt-get install chromium)")
expect.set_options(timeout=20_000)
SHORT = job(task={"name": "littoral.tasks.digits", "width": 1}, target={"epochs": 25}, evaluate_every=0.5)
PATHS = ["/", "/runs", "/runs/1", "/submit", "/plans", "/plans/1", "/plans/1/to/1", "/models", "/models/digits",
         "/triggers", "/devices", "/events", "/tokens"]  # fmt: skip


@dataclass
class Served:
    """A manager in a process of its own."""

    url: str
    token: str
    folder: Path
    log: Path

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    def new_token(self, role: str) -> str:
        with self.client() as client:
            made = client.post("/tokens", json={"name": f"{role}-{os.urandom(3).hex()}", "role": role})
        return str(made.json()["secret"])


@dataclass
class Seen:
    """What a browser did and complained about."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def hear(self, kind: str, text: str) -> None:
        """Labs of other tests come and go meanwhile; a page that lacks something for it fails by what it lacks."""
        if kind in ("error", "warning") and "ERR_NETWORK_CHANGED" not in text:
            self.complaints.append(text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    data, log = folder / "data", folder / "log.txt"
    command = [sys.executable, "-m", "littoral", "serve", "--data", str(data), "--port", "0", "--token-file",
               str(folder / "token"), "--runs", "2"]  # fmt: skip
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream, stdout=stream)
    try:
        until(lambda: b"serving" in log.read_bytes() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        known = json.loads((data / "client.json").read_text())
        found = Served(known["url"], known["token"], data, log)
        until(lambda: _answers(found.url))
        _fill(found)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _fill(served: Served) -> None:
    """A continuum, a plan, a run in virtual time, a model with two versions, a trigger, a device with strikes."""
    with served.client() as client:

        def ok(answer: httpx.Response) -> Any:
            assert answer.is_success, answer.text
            return answer.json()

        ok(client.put("/continuums/bench", json=CONTINUUM))
        ok(client.post("/jobs", json={"job": SHORT, "options": {"world": "simulated", "timing_only": True}}))
        ok(client.post("/plans", json={"job": job()}))
        ok(client.post("/models", json={"name": "digits", "task": "littoral.tasks.digits"}))
        for number in (1, 2):
            weights = save(dict(Digits().model().state_dict()))
            headers = {"Content-Type": "application/octet-stream"}
            ok(client.post("/models/digits/versions", content=weights, headers=headers))
            ok(client.post("/models/digits/promote", json={"version": number, "force": True}))
        ok(client.post("/triggers", json={"model": "digits", "kind": "drift"}))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


Open = Callable[..., Page]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def page_of(browser: Browser, served: Served, seen: Seen) -> Iterator[Open]:
    """A page that is logged in; in the end it must have asked nobody else and complained about nothing."""
    with _pages(browser, seen) as make:

        def logged_in(token: str = "", **options: Any) -> Page:
            page = make(**options)
            page.goto(served.url)
            page.fill("#token", token or served.token)
            page.keyboard.press("Enter")
            expect(page.locator("h1")).to_have_text("Overview")
            return page

        yield logged_in
    assert seen.complaints == []
    own = served.url.removeprefix("http")
    assert seen.requests and [url for url in seen.requests if not re.match(rf"(http|ws){re.escape(own)}/", url)] == []
    assert not any(served.token in url for url in seen.requests)


@contextmanager
def _pages(browser: Browser, seen: Seen) -> Iterator[Callable[..., Page]]:
    contexts = []

    def make(**options: Any) -> Page:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("websocket", lambda socket: seen.requests.append(socket.url))
        page.on("console", lambda told: seen.hear(told.type, told.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()


def test_paths_name_every_view() -> None:
    patterns = [re.compile(re.sub(r"{\w+}", "[^/]+", view.path)) for view in VIEWS]
    assert all(any(pattern.fullmatch(path) for path in PATHS) for pattern in patterns)


def test_the_story(page_of: Open, served: Served) -> None:
    """Log in, submit a job, watch it finish, see its plots, roll a model back, log out."""
    page = page_of()
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and served.token not in cookie["value"]
    page.get_by_role("link", name="Submit").click()
    page.fill("#document", json.dumps(SHORT, indent=1))
    page.select_option("#world", "simulated")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("h1")).to_contain_text("digits")
    expect(page.locator("#accuracy path.line")).to_be_visible()
    expect(page.locator("#gantt path.busy").first).to_be_visible()
    expect(page.locator("#links path.line").first).to_be_visible()
    expect(page.locator("#missed")).to_contain_text("spin")
    expect(page.locator(".badge")).to_have_text("finished", timeout=60_000)
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Report").click()
    expect(opened.value.locator("h1")).to_contain_text("digits", timeout=60_000)
    opened.value.close()
    page.goto(f"{served.url}/page/models/digits")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.locator("#said")).to_have_text("Version 1 is served again.")
    with served.client() as client:
        assert client.get("/models/digits").json()["current"] == 1
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("#token")).to_be_visible()
    page.goto(f"{served.url}/page/runs")
    expect(page.locator("#token")).to_be_visible()


def test_plots_move_until_a_run_is_stopped(page_of: Open, served: Served) -> None:
    page = page_of()
    with served.client() as client:
        made = submit(client, endless(), world="simulated")
    page.goto(f"{served.url}/page/runs/{made['run']['number']}")
    curve = page.locator("#accuracy path.line")
    expect(curve).to_be_visible()
    before = curve.get_attribute("d")
    until(lambda: curve.get_attribute("d") != before)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator(".badge")).to_have_text("stopped", timeout=60_000)


def test_what_is_wrong_is_shown_at_its_line(page_of: Open, served: Served) -> None:
    page = page_of()
    page.goto(f"{served.url}/page/submit")
    page.fill("#document", "name: digits\ncontinuum: bench\ntask: littoral.tasks.digits\ntarget:\n  epoch: 3\n")
    page.get_by_role("button", name="Plan first").click()
    expect(page.locator("#wrong")).to_contain_text("Line 5")
    expect(page.locator("#wrong")).to_contain_text("did you mean")
    assert page.locator("#document").get_attribute("aria-invalid") == "true"
    assert "epoch: 3" in page.locator("#document").input_value()
    assert page.evaluate("getSelection().toString()") == "  epoch: 3"
    page.fill("#document", "name: [")
    page.get_by_role("button", name="Plan first").click()
    expect(page.locator("#wrong")).to_contain_text("YAML syntax")
    page.fill("#document", json.dumps(SHORT))
    page.select_option("#world", "simulated")
    page.check("#lab")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#wrong")).to_have_text("the lab is for the processes world; leave out 'lab' or 'world'")
    expect(page.locator("#wrong")).to_be_focused()
    assert page.is_checked("#lab") and page.locator("#world").input_value() == "simulated"
    page.goto(f"{served.url}/page/models")
    page.get_by_text("New model").click()
    page.fill("#document", "name: gulls\ntsk: littoral.tasks.digits\n")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("#wrong")).to_contain_text("Line 2: unknown key 'tsk'")
    page.fill("#document", "name: gulls\ntask: littoral.tasks.digits\n")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("h1")).to_have_text("Model gulls")
    expect(page.locator("#main")).to_contain_text("its training has no job")
    with served.client() as client:
        assert client.get("/models/gulls").json()["task"] == "littoral.tasks.digits"


def test_plans_are_made_looked_at_and_run(page_of: Open, served: Served) -> None:
    page = page_of()
    page.goto(f"{served.url}/page/submit")
    page.fill("#document", json.dumps(job(planner="search", workers=["*"])))
    page.get_by_role("button", name="Plans between").click()
    expect(page.locator("#main")).to_contain_text("Who does what")
    other = page.get_by_role("link", name=re.compile(r"^Plan \d+$")).first
    name = other.inner_text()
    other.click()
    page.select_option("#world", "simulated")
    page.get_by_role("button", name=f"Run {name.lower()}").click()
    expect(page.locator("h1")).to_contain_text(re.compile(r"Run \d+ · digits"))
    with served.client() as client:
        run = client.get(page.url.removeprefix(f"{served.url}/page")).json()
        assert client.get(f"/jobs/{run['job']}").json()["planned"]


def test_by_keyboard_alone(page_of: Open, served: Served) -> None:
    """A token is made without a pointer, and what has the focus is seen."""
    page = page_of()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Tokens":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Tokens")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    page.keyboard.type("camera-7")
    page.keyboard.press("Tab")
    page.keyboard.type("ingest")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#secret")).to_contain_text(re.compile("lit_[0-9a-f]{12}_"))
    secret = page.locator("#secret").inner_text()
    with served.client() as client:
        made = {token["name"]: token["role"] for token in client.get("/tokens").json()["items"]}
    assert made["camera-7"] == "ingest"
    page.reload()
    expect(page.locator("h1")).to_have_text("Tokens")
    assert secret not in page.content() and secret not in served.log.read_text()


def test_focus_stays_while_the_page_changes(page_of: Open, served: Served) -> None:
    page = page_of()
    link = page.get_by_role("link", name="all events")
    link.focus()
    with served.client() as client:
        assert client.put("/continuums/bench", json=CONTINUUM).is_success
    expect(page.locator("#main")).to_contain_text("continuum.changed")
    assert page.evaluate("document.activeElement.textContent") == "all events"


def test_on_a_phone_nothing_scrolls_sideways(page_of: Open, served: Served) -> None:
    page = page_of(viewport={"width": 390, "height": 844})
    for path in PATHS:
        page.goto(f"{served.url}/page{path}")
        expect(page.locator("h1")).to_be_visible()
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, (path, width)


def test_light_and_dark(page_of: Open) -> None:
    page = page_of(color_scheme="dark")

    def ground() -> int:
        found = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", found)[:3])

    assert ground() < 150
    page.select_option("#theme", "light")
    assert ground() > 600
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert ground() > 600 and page.locator("#theme").input_value() == "light"
    page.select_option("#theme", "system")
    page.emulate_media(color_scheme="light")
    assert ground() > 600


def test_a_viewer_sees_no_buttons_and_is_refused_anyway(page_of: Open, served: Served) -> None:
    page = page_of(served.new_token("viewer"))
    for path in PATHS:
        page.goto(f"{served.url}/page{path}")
        expect(page.locator("h1")).to_be_visible()
        assert page.locator("[data-act]").count() == 0, path
    page.goto(f"{served.url}/page/models/digits")
    expect(page.locator("h1")).to_be_visible()
    page.evaluate("""document.querySelector("#main").insertAdjacentHTML(
        "beforeend", '<button type="button" data-act="promote" data-version="2" id="forged">x</button>')""")
    page.locator("#forged").dispatch_event("click")
    expect(page.locator("#said")).to_contain_text("operator's token")


def test_a_revoked_token_ends_its_visits(page_of: Open, served: Served) -> None:
    token = served.new_token("viewer")
    page = page_of(token)
    with served.client() as client:
        found = client.get("/tokens", params={"limit": 500}).json()["items"]
        name = next(one["name"] for one in found if one["id"] == token.split("_")[1])
        assert client.delete(f"/tokens/{name}").is_success
    expect(page.locator("#token")).to_be_visible()


def test_who_may_log_in(browser: Browser, served: Served, seen: Seen) -> None:
    with _pages(browser, seen) as make:
        page = make()
        for token, told in (("lit_nothing", "opens nothing"), (served.new_token("ingest"), "for samples only")):
            page.goto(f"{served.url}/page/")
            page.fill("#token", token)
            page.get_by_role("button").click()
            expect(page.get_by_role("alert")).to_contain_text(told)
            assert token not in page.url and token not in page.content()


def test_the_api_is_as_it_was(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        document = client.get("/openapi.json").json()
        assert "/jobs" in document["paths"] and not [
            path for path in document["paths"] if "page" in path or path == "/"
        ]
        assert client.get("/jobs").status_code == 401
        answer = client.get("/page/tokens", follow_redirects=False)
        assert answer.status_code == 303 and answer.headers["location"] == "/page/login?to=/page/tokens"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        elsewhere = client.post("/page/login", data={"token": served.token, "to": "//evil.example/"})
        assert elsewhere.headers["location"] == "/page/"
        crossed = client.post("/page/login", data={"token": served.token}, headers={"Sec-Fetch-Site": "cross-site"})
        assert crossed.status_code == 403
    assert served.token not in served.log.read_text()
    assert (served.folder / "page.key").stat().st_mode & 0o077 == 0
