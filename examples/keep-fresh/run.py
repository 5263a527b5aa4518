"""A served model decays as its pictures change, and recovers: samples, drift, trigger, update, gate, promotion.

    python examples/keep-fresh/run.py [--phases N] [--seconds S] [--rate R] [--trigger NAME] [--lab] [--out FOLDER]

A manager serves a classifier of digits. A camera asks it about every picture and tells it later what was true. The
pictures are turned, then get brighter, then show digits never seen before; a trigger notices, and the update trains on
three devices that look for SIFT features meanwhile. A copy of the first version, never updated, is asked the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import Any

import yaml
from picture import page, picture
from summary import summary, table

from littoral import Client, LittoralError
from littoral.continuum.load import load_continuum
from littoral.continuum.write import continuum_document
from littoral.errors import MissingExtra
from littoral.incremental.images import digits
from littoral.incremental.stream import ImageStream, Phase

HERE = Path(__file__).parent
FIRST = 800  # pictures that the first version learns from
BATCH = 20  # pictures asked about at once
LONGEST = 20_000  # pictures in a phase, whatever happens
MODEL, FROZEN = "digits", "digits-frozen"
TRIGGERS: dict[str, dict[str, Any]] = {
    "drift": {"detector": "adwin", "gather": 100, "debounce_s": 5, "cool_down_s": 20},
    # a point of accuracy is worth 1 USD until tomorrow, a second of the three devices 3 USD
    "expected-gain": {"usd_per_point_day": 1, "horizon_s": 86_400, "usd_per_hour": 10_800, "window": 200,
                      "debounce_s": 5, "cool_down_s": 20},
}  # fmt: skip


BRIGHT: dict[str, Any] = {"rotation": 40, "brightness": 0.35, "contrast": 0.6}
PHASES = (
    Phase(name="calm", samples=LONGEST, classes=tuple(range(7))),
    Phase(name="turned", samples=LONGEST, classes=tuple(range(7)), rotation=40),
    Phase(name="brighter", samples=LONGEST, classes=tuple(range(7)), **BRIGHT, gradual=300),
    Phase(name="new classes", samples=LONGEST, **BRIGHT),
    Phase(name="back", samples=LONGEST, gradual=300),
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One batch: when, in which phase, and how many each model had right."""

    t: float
    phase: str
    pictures: int
    right: int
    frozen_right: int
    version: int


@dataclass
class Story:
    """What happened; times in seconds since the stream began."""

    trigger: str
    world: str
    batches: list[Asked] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)


def main() -> None:
    options = arguments()
    for package, extra in (("cv2", "apps"), ("matplotlib", "report")):
        if find_spec(package) is None:
            raise MissingExtra(package, extra, "this example")
    options.out.mkdir(parents=True, exist_ok=True)
    with manager(options.out) as client:
        story = tell_story(client, options)
    (options.out / "accuracy.json").write_text(json.dumps({"summary": summary(story), **asdict(story)}, indent=1))
    (options.out / "accuracy.png").write_bytes(picture(story))
    (options.out / "accuracy.html").write_text(page(story))
    print(table(story))
    print(f"picture: {options.out / 'accuracy.png'}", file=sys.stderr)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--phases", type=int, default=4, choices=range(2, 6), help="how many of the five")
    parser.add_argument("--seconds", type=float, default=18, help="of a phase; it waits for an update under way")
    parser.add_argument("--rate", type=float, default=60, help="pictures per second")
    parser.add_argument("--trigger", choices=TRIGGERS, default="drift")
    parser.add_argument("--lab", action="store_true", help="emulate the three devices (as root, Linux)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/keep-fresh"))
    return parser.parse_args()


@contextmanager
def manager(out: Path) -> Iterator[Client]:
    """``littoral serve`` on a free port of this machine, on a data folder of its own."""
    data = out / f"manager-{time.strftime('%Y%m%d-%H%M%S')}"
    data.mkdir()
    command = [sys.executable, "-m", "littoral", "serve", "--data", str(data), "--port", "0"]
    with (data / "serve.log").open("w") as log, Popen(command, stderr=log) as server:
        try:
            while "serving" not in (data / "serve.log").read_text():
                if server.poll() is not None:
                    raise LittoralError(f"the manager ended: {(data / 'serve.log').read_text()}")
                time.sleep(0.1)
            with Client.of_folder(data) as client:
                yield client
        finally:
            server.terminate()


def tell_story(client: Client, options: argparse.Namespace) -> Story:
    """From nothing to the end of the stream."""
    phases = PHASES[: options.phases]
    stream = ImageStream(digits(), phases, seed=options.seed)
    prepare(client, stream, options.lab)
    story = Story(trigger=options.trigger, world="lab" if options.lab else "processes")
    client.create_trigger(MODEL, options.trigger, **TRIGGERS[options.trigger])
    clock = Clock(options.rate)
    starts = (FIRST, *stream.drifts)
    for start, phase in zip(starts, phases, strict=True):
        story.phases.append((clock.now, phase.name))
        play(client, stream, start, phase.name, clock, story, options.seconds)
    return story


def prepare(client: Client, stream: ImageStream, lab: bool) -> None:
    """The first version, from the first pictures, and a copy of it that stays as it is."""
    continuum = load_continuum(HERE / "continuum.yaml")
    client.put_continuum(continuum.name, continuum_document(continuum))
    document = yaml.safe_load((HERE / "model.yaml").read_text())
    document["training"]["job"]["continuum"] = continuum.name
    document["training"]["options"]["lab"] = lab
    client.create_model(document)
    client.create_model({"name": FROZEN, "task": document["task"]})
    inputs, actual = stream.between(0, FIRST)
    client.ingest(MODEL, inputs, actual=actual)
    for update in client.watch_update(client.update_model(MODEL, "the first version").number):
        say(f"the first version: {update.state}")
    if update.state != "promoted":
        raise LittoralError(f"there is no first version: {update.reason}")
    client.add_version(FROZEN, client.weights(MODEL, 1))
    client.promote(FROZEN, 1, force=True)


@dataclass
class Clock:
    """Seconds since the stream began, and when the next batch is due."""

    rate: float
    began: float = field(default_factory=time.monotonic)
    due: float = 0.0

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def wait(self) -> None:
        """Until the next batch; a stream that is late does not hurry."""
        self.due = max(self.due + BATCH / self.rate, self.now)
        time.sleep(max(0.0, self.due - self.now))


def play(
    client: Client, stream: ImageStream, start: int, phase: str, clock: Clock, story: Story, seconds: float
) -> None:
    """A phase: at least so long, and on while an update is under way, and for a third of it with the new version."""
    began, settle = clock.now, seconds / 3
    for step in range(start, start + LONGEST - FIRST - BATCH, BATCH):
        clock.wait()
        asked = ask(client, stream, step, phase, clock)
        story.batches.append(asked)
        story.updates = [*watched(client, clock, story.updates)]
        if step % (10 * BATCH) == 0:
            say(progress(story))
        quiet_since = max([began + seconds - settle, *(u["ended"] or clock.now for u in story.updates)])
        if clock.now - quiet_since >= settle:
            return


def ask(client: Client, stream: ImageStream, step: int, phase: str, clock: Clock) -> Asked:
    """What a camera does, and the same pictures for the copy."""
    inputs, actual = stream.between(step, step + BATCH)
    told, frozen = client.predict(MODEL, inputs), client.predict(FROZEN, inputs)
    client.ingest(MODEL, inputs, predicted=told.labels, actual=actual, versions=[told.version] * BATCH)
    return Asked(
        t=clock.now, phase=phase, pictures=BATCH, right=int(sum(told.labels == actual)),
        frozen_right=int(sum(frozen.labels == actual)), version=told.version,
    )  # fmt: skip


def watched(client: Client, clock: Clock, known: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The updates that the trigger asked for, the oldest first; those that have ended are not looked at again."""
    over = {update["number"]: update for update in known if update["ended"] is not None}
    offset = clock.now - time.time()
    for found in reversed(client.updates(MODEL).items):
        if found.trigger is None:
            continue
        if found.number in over:
            yield over[found.number]
            continue
        ended = None if found.ended is None else found.ended + offset
        result = client.result(int(found.run)) if found.run and ended is not None else {}
        if ended is not None:
            say(f"update {found.number}: {found.state}, {found.reason}")
        yield {"number": found.number, "asked": found.created + offset, "ended": ended, "state": found.state,
               "version": found.version, "why": found.why, "reason": found.reason, "time_s": found.time_s,
               "slo": result.get("slo"), "workers": sorted(result.get("workers", {}))}  # fmt: skip


def progress(story: Story) -> str:
    last = story.batches[-5:]
    right, frozen = sum(each.right for each in last), sum(each.frozen_right for each in last)
    count = sum(each.pictures for each in last)
    state = next((f"; update {u['number']} {u['state']}" for u in story.updates if u["ended"] is None), "")
    now = f"{last[-1].t:5.0f} s  {last[-1].phase:<12}"
    return f"{now} right: {right / count:.2f} (version {last[-1].version}), without updates {frozen / count:.2f}{state}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except LittoralError as error:
        sys.exit(f"keep-fresh: {error}")
