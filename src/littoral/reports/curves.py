"""A run as plain curves, settings and figures: what other tools' formats can hold of it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from littoral.errors import InputError
from littoral.events import Computed, DeadlineMissed, EpochFinished, Evaluated, Event, Resumed, RunStarted, Sent, Used
from littoral.journal import history

MOST_POINTS = 1000  # of a curve of single steps; means stand for more
_MOST_WORKERS = 100  # whose settings are told singly
_PLAIN = ("task", "objective", "planner", "on_failure", "wire", "evaluate_every")


@dataclass(frozen=True, slots=True)
class Point:
    """A value after ``step`` samples, at ``t`` on the world's clock."""

    t: float
    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """A run: curves by name, settings as text, single figures; ``began`` in seconds since 1970, about."""

    run: str
    job: str  # its name
    world: str
    reason: str  # '': it has not ended
    began: float
    ended: float
    curves: dict[str, list[Point]]
    settings: dict[str, str]
    figures: dict[str, float]


@dataclass
class _Drawing:
    """Curves that grow as events pass."""

    curves: defaultdict[str, list[Point]] = field(default_factory=lambda: defaultdict(list))
    samples: int = 0
    sent: int = 0
    wide: int = 0
    missed: int = 0
    _before: tuple[float, int] = (0.0, 0)

    def update(self, event: Event) -> None:
        match event:
            case Used(samples=samples):
                self.samples += samples
            case Resumed(samples=samples):
                self.samples, self._before = samples, (event.t, samples)
            case Sent(size=size, wide_area=wide_area):
                self.sent += size
                self.wide += size if wide_area else 0
            case Computed(node=node, loss=loss) if loss is not None:
                self._add(f"training_loss/{node}", event.t, self.samples, loss)
            case EpochFinished(epoch=epoch):
                self._add("epochs", event.t, self.samples, epoch + 1)
            case DeadlineMissed():
                self.missed += 1
                self._add("deadlines_missed", event.t, self.samples, self.missed)
            case Evaluated():
                self._evaluated(event)

    def _evaluated(self, event: Evaluated) -> None:
        told = {"accuracy": event.accuracy, "loss": event.loss, "bytes_sent": self.sent, "wan_bytes": self.wide}
        for name, value in told.items():
            self._add(name, event.t, event.samples, value)
        (t, samples), self._before = self._before, (event.t, event.samples)
        if event.t > t and event.samples > samples:
            self._add("samples_per_s", event.t, event.samples, (event.samples - samples) / (event.t - t))

    def _add(self, name: str, t: float, step: int, value: float) -> None:
        self.curves[name].append(Point(t, step, float(value)))


def read_curves(folder: Path) -> Curves:
    """What a run's folder tells; the run may be at work still."""
    journal = folder / "journal.jsonl"
    events = history(journal, float("inf"))
    started = events[0] if events else None
    if not isinstance(started, RunStarted):
        raise InputError("the run never started", file=folder, remedy="name the folder of a run that did")
    drawing = _Drawing()
    for event in events:
        drawing.update(event)
    result = _result(folder)
    ended, last = journal.stat().st_mtime, max(event.t for event in events)
    return Curves(
        run=started.run, job=str(started.job["name"]), world=started.world, reason=str(result.get("reason", "")),
        began=ended - last, ended=ended, settings=dict(_settings(started)), figures=dict(_numbers(result)),
        curves={name: thinned(points) for name, points in sorted(drawing.curves.items())},
    )  # fmt: skip


def thinned(points: list[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most ``most``: each the mean of its neighbours, at the last one's place."""
    if len(points) <= most:
        return points
    size = -(-len(points) // most)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [Point(g[-1].t, g[-1].step, sum(point.value for point in g) / len(g)) for g in groups]


def plain_name(name: str) -> str:
    """A name that is safe as a path in either format.

    >>> plain_name("training_loss/../w 1?")
    'training_loss/_./w 1_'
    """
    parts = (re.sub(r"[^A-Za-z0-9_. -]", "_", part) for part in name.split("/"))
    return "/".join(re.sub(r"^\.", "_", part) or "_" for part in parts)


def _result(folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _settings(started: RunStarted) -> Iterator[tuple[str, str]]:
    job, plan = started.job, started.plan
    yield from (("world", started.world), ("seed", str(started.seed)), ("strategy", str(plan["strategy"])))
    yield from ((key, _text(job[key])) for key in _PLAIN if job.get(key) is not None)
    yield from ((f"strategy.{key}", _text(value)) for key, value in plan.get("parameters", {}).items())
    yield from (("epochs", str(plan["epochs"])), ("workers", str(len(plan["workers"]))))
    for worker in plan["workers"][:_MOST_WORKERS]:
        yield f"worker.{worker['name']}", f"shard {worker['shard']}, batch {worker['batch']}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _numbers(result: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in result.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield key, float(value)
