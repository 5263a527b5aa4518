"""Takes the pictures of docs/page.md: a manager with something to show, in a real browser.

python docs/pictures.py [FOLDER]      needs chromium; about three minutes
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from littoral.manager.page.written import plain
from littoral.manager.parcels import Head, pack_samples
from littoral.tasks.digits import Digits

DOCS = Path(__file__).parent
BINARY = {"Content-Type": "application/octet-stream"}
CONTINUUM = """
sites:
  - {name: quay, tier: edge}
  - {name: street, tier: edge}
  - {name: hall, tier: fog}
  - {name: region, tier: cloud}
devices:
  - {name: camera-1, site: street, kind: raspberry-pi-4b, samples_per_second: 20 samples/s, count: 3}
  - {name: nano-1, site: quay, kind: jetson-nano, samples_per_second: 60 samples/s, count: 3}
  - {name: nuc-1, site: hall, kind: intel-nuc8i7, samples_per_second: 200 samples/s, count: 2}
  - {name: gpu, site: region, kind: aws-g4dn.xlarge, samples_per_second: 2000 samples/s}
links:
  - {between: [street, street], bandwidth: 100 Mbit/s, latency: 2 ms, shared: true}
  - {between: [quay, quay], bandwidth: 1 Gbit/s, latency: 0.5 ms}
  - {between: [hall, hall], bandwidth: 1 Gbit/s, latency: 0.2 ms}
  - {between: [street, hall], bandwidth: 100 Mbit/s, latency: 5 ms}
  - {between: [quay, hall], bandwidth: 200 Mbit/s, latency: 4 ms}
  - {between: [hall, region], bandwidth: 50 Mbit/s, latency: 40 ms, price: 0.09 USD/GB}
apps:
  - {name: detect, on: "camera-*", every: 500 ms, deadline: 400 ms, work: 150 ms, demand: 0.6}
  - {name: count, on: "nano-*", every: 1 s, work: 100 ms, demand: 0.4}
stores:
  - {name: archive, on: nuc-1, samples: 1437}
"""
JOB: dict[str, Any] = {
    "name": "gulls",
    "continuum": "harbour",
    "task": {"name": "littoral.tasks.digits", "width": 6},
    "target": {"accuracy": 0.995, "epochs": 150},
    "workers": ["camera-*", "nano-*", "nuc-2"],
    "servers": ["nuc-1"],
    "strategy": {"name": "parameter_server", "mode": "asp"},
    "planner": "proportional",
    "evaluate_every": 0.5,
}
FAULTY = {"target": {"epochs": 3}, "on_failure": "deepedge",
          "faults": [{"at": "2 s", "node": "nano-3", "kind": "crash"}]}  # fmt: skip
TRAINING = {"continuum": "harbour", "workers": ["nano-*"], "target": {"epochs": 12}, "strategy": "allreduce",
            "planner": "fair"}  # fmt: skip
MODEL = {
    "name": "digits", "task": "littoral.tasks.digits", "gate": {"least_samples": 20},
    "training": {"least_samples": 50, "window": 400, "job": TRAINING, "options": {"world": "simulated"}},
}  # fmt: skip


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """A manager of its own: its address, and an operator's token."""
    command = [sys.executable, "-m", "littoral", "serve", "--data", str(folder), "--port", "0", "--runs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        while "serving" not in process.stderr.readline():
            pass
        known = json.loads((folder / "client.json").read_text())
        yield known["url"], known["token"]
    finally:
        process.terminate()
        process.wait()


def until(condition: Callable[[], Any], patience_s: float = 90.0) -> Any:
    """What a condition gives once it gives something."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise TimeoutError


def ok(answer: httpx.Response) -> Any:
    """A good answer."""
    assert answer.is_success, answer.text
    return answer.json()


def ended(client: httpx.Client, path: str) -> Any:
    """A run or an update, once it is over."""
    return until(lambda: (found := ok(client.get(path)))["ended"] and found)


def fill(client: httpx.Client) -> None:
    """Runs with faults, plans, a model that drifted and was mended."""
    for seed in (1, 2):
        job = {**JOB, **FAULTY, "name": "rehearsal", "seed": seed}
        ended(client, f"/runs/{submit(client, job, world='simulated')}")
    ok(client.post("/plans", json={"job": {**JOB, "workers": ["*"]}}, params={"pareto": True}))
    keep_fresh(client)


@contextmanager
def beating(client: httpx.Client) -> Iterator[None]:
    """A continuum whose cameras send heartbeats; one soon falls silent."""
    ok(client.put("/continuums/harbour", json=plain(CONTINUUM)))
    over = threading.Event()

    def beat() -> None:
        names = ["camera-1", "camera-2", "camera-3"]
        while not over.wait(2.0):
            for number, name in enumerate(names):
                load = {"cpu": 0.6 + 0.1 * number}
                ok(client.post(f"/devices/{name}/heartbeat", json={"sent": time.time(), "load": load}))
            names = names[:2]

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def submit(client: httpx.Client, job: dict[str, Any], **options: Any) -> int:
    """A job; its run."""
    return int(ok(client.post("/jobs", json={"job": job, "options": options}))["run"]["number"])


def keep_fresh(client: httpx.Client) -> None:
    """Samples arrive, a first version; then they are inverted, the trigger fires, the next version is promoted."""
    ok(client.post("/models", json=MODEL))
    (x, y), _ = Digits().load()
    dice = np.random.default_rng(0)

    def batch(count: int, drifted: bool) -> tuple[Any, list[int]]:
        chosen = dice.integers(len(x), size=count)
        return (1 - x[chosen] if drifted else x[chosen]), [int(label) for label in y[chosen]]

    pictures, labels = batch(600, False)
    send(client, pictures, actual=labels)
    ended(client, f"/updates/{ok(client.post('/models/digits/update', json={'why': 'the first'}))['number']}")
    for kind, settings in (("drift", {"gather": 300, "debounce_s": 0}), ("accuracy-below", {"accuracy": 0.1})):
        ok(client.post("/triggers", json={"model": "digits", "kind": kind, "settings": settings}))
    for turn in range(60):
        pictures, labels = batch(40, turn >= 25)
        told = ok(client.post("/models/digits/predict", content=pictures.tobytes(), headers=BINARY))
        send(client, pictures, actual=labels, predicted=told["labels"], versions=[told["version"]] * 40)
        time.sleep(0.28)  # triggers are asked four times a second
    until(lambda: ok(client.get("/models/digits"))["current"] >= 2)  # a follow-up may make it 3


def send(client: httpx.Client, pictures: Any, **columns: Any) -> None:
    """Samples into the model's store."""
    ok(client.post("/stores/digits/samples", content=pack_samples(Head(**columns), pictures), headers=BINARY))


# -- pictures ---------------------------------------------------------------------------------------------------------

VIEWS = {
    "overview": "/", "runs": "/runs", "run": "/runs/{run}", "submit": "/submit", "front": "/plans/{first}/to/{last}",
    "plans": "/plans", "plan": "/plans/{first}", "models": "/models", "model": "/models/digits",
    "triggers": "/triggers", "devices": "/devices", "events": "/events", "tokens": "/tokens",
}  # fmt: skip
KEPT = {
    "wide": ("overview", "devices", "model", "triggers", "front"),
    "dark": ("overview", "run"),
    "phone": ("overview", "run"),
}


def opened(browser: Browser, url: str, token: str, width: int, scheme: Any) -> Page:
    """A page that is logged in."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(f"{url}/page/")
    page.fill("#token", token)
    page.click("button")
    page.wait_for_selector("h1:has-text('Overview')")
    return page


def take(url: str, token: str, places: dict[str, Any], out: Path, everything: bool) -> None:
    """All views in three ways, or those that are kept."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for way, width, scheme in (("wide", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")):
            page = opened(browser, url, token, width, scheme)
            for name in VIEWS if everything else KEPT[way]:
                page.goto(url + "/page" + VIEWS[name].format(**places))
                page.wait_for_selector("h1")
                page.wait_for_timeout(600)
                path = out / f"{name}-{way}.png"
                page.screenshot(path=path, full_page=True, animations="disabled")
                shrink(path)
            page.close()
        browser.close()


def shrink(path: Path) -> None:
    """With 256 colours, rare ones among them."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


def main() -> None:
    """Fill a manager and take its pictures."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (url, token):
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=120, trust_env=False) as client, beating(client):
            fill(client)
            run = submit(client, JOB, world="simulated")
            plans = [plan["number"] for plan in ok(client.get("/plans", params={"limit": 500}))["items"]]
            until(lambda: (ok(client.get(f"/runs/{run}"))["progress"] or {}).get("share", 0) > 0.05)
            places = {"run": run, "first": plans[0], "last": plans[-1]}
            take(url, token, places, out, everything=len(sys.argv) > 1)


if __name__ == "__main__":
    main()
