"""The live map: every device and app of every continuum, what it is doing, and the strikes against it.

Strikes are kept beside the runs' folders, as ``littoral.strikes`` says: after three losses in runs with ``on_failure:
deepedge`` a worker sits out some runs and is then tried again; an operator can pardon it. They go by a device's name,
in whatever continuum it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from littoral.continuum.continuum import Continuum
from littoral.manager.continuums import Continuums
from littoral.manager.jobs import Jobs
from littoral.manager.launcher import Launcher
from littoral.manager.paging import Page, Window, page
from littoral.manager.refusals import unknown
from littoral.manager.runs import Run, Runs, RunState
from littoral.rundir import RunFolder
from littoral.strikes import PROBATION, Strikes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """``state``: idle, working, lost, done (its part of a run is over) or excluded (three strikes).

    ``returns_in_runs`` is how many more runs an excluded device sits out.
    """

    continuum: str
    name: str
    site: str
    tier: str
    kind: str
    memory_bytes: float
    price_usd_per_h: float
    state: str
    runs: list[int]
    apps: list[str]
    strikes: int
    returns_in_runs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRecord:
    """A background app; ``missed`` counts late periods in the runs at work now."""

    continuum: str
    name: str
    on: list[str]
    every_s: float
    deadline_s: float
    run: str
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecord:
    """Where training data lies before a job."""

    continuum: str
    name: str
    site: str
    device: str | None
    samples: int


T = TypeVar("T", DeviceRecord, AppRecord)


class Devices:
    """Looks at continuums, runs and strikes together."""

    def __init__(self, continuums: Continuums, jobs: Jobs, runs: Runs, launcher: Launcher, folder: Path) -> None:
        self._continuums, self._jobs, self._runs, self._launcher = continuums, jobs, runs, launcher
        self._book = RunFolder(folder / "strikes")  # strikes lie beside the folders of runs

    def listed(self, window: Window, continuum: str | None = None, state: str | None = None) -> Page[DeviceRecord]:
        """Devices, by continuum and name."""
        strikes, busy = self._book.strikes(), self._busy()
        found = [
            record
            for described in self._described(continuum)
            for record in _devices(described, strikes, busy)
            if state is None or record.state == state
        ]
        return _window(found, window)

    def apps(self, window: Window, continuum: str | None = None) -> Page[AppRecord]:
        """Apps, by continuum and name."""
        missed = self._missed()
        found = [
            AppRecord(
                continuum=described.name, name=app.name, on=list(app.on), every_s=app.period_s,
                deadline_s=app.deadline_s, run=app.run or "littoral.apps.busy",
                missed=missed.get((described.name, app.name), 0),
            )
            for described in self._described(continuum)
            for app in described.apps
        ]  # fmt: skip
        return _window(found, window)

    def stores(self, name: str) -> list[StoreRecord]:
        """The stores of a continuum."""
        return [
            StoreRecord(continuum=name, name=store.name, site=store.site, device=store.device, samples=store.samples)
            for described in self._described(self._continuums.get(name).name)
            for store in described.stores
        ]

    def pardon(self, name: str) -> int:
        """Forgive a device its strikes; how many it had."""
        if not any(name in described.device_names for described in self._continuums.all()):
            if name not in self._book.strikes().nodes:
                raise unknown("device", name)
        before = self._book.strikes().count(name)
        self._book.change_strikes(lambda strikes: strikes.pardoned(name))
        return before

    def _described(self, name: str | None) -> list[Continuum]:
        return [one for one in self._continuums.all() if name in (None, one.name)]

    def _working(self) -> Iterator[tuple[Run, str]]:
        """Runs at work, each with its continuum."""
        for run in self._runs.listed(Window(limit=500), RunState.RUNNING).items:
            yield run, str(self._jobs.get(run.job).document.get("continuum"))

    def _busy(self) -> dict[tuple[str, str], list[tuple[int, str]]]:
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for run, continuum in self._working():
            follower = self._launcher.following(run.number)
            for node, state in follower.progress.nodes.items() if follower else ():
                device = follower.devices.get(node, node) if follower else node
                found.setdefault((continuum, device), []).append((run.number, state))
        return found

    def _missed(self) -> dict[tuple[str, str], int]:
        return {
            (continuum, app): count
            for run, continuum in self._working()
            for follower in [self._launcher.following(run.number)]
            for app, count in (follower.missed if follower else {}).items()
        }


def _devices(
    described: Continuum, strikes: Strikes, busy: Mapping[tuple[str, str], list[tuple[int, str]]]
) -> Iterator[DeviceRecord]:
    for device in described.devices:
        work = busy.get((described.name, device.name), [])
        barred = strikes.excluded(device.name)
        yield DeviceRecord(
            continuum=described.name, name=device.name, site=device.site, tier=described.site(device.site).tier,
            kind=device.kind, memory_bytes=device.memory_bytes, price_usd_per_h=3600 * device.price_usd_per_s,
            state="excluded" if barred else _state([state for _, state in work]), runs=sorted({n for n, _ in work}),
            apps=[app.name for app in described.apps_on(device.name)], strikes=strikes.count(device.name),
            returns_in_runs=_sentence(strikes, device.name) if barred else None,
        )  # fmt: skip


def _state(states: list[str]) -> str:
    return next((state for state in ("lost", "working", "done") if state in states), "idle")


def _sentence(strikes: Strikes, name: str) -> int:
    return max(0, strikes.nodes[name].lost_in_run + PROBATION - strikes.runs)


def _window(found: list[T], window: Window) -> Page[T]:
    """A page of what is computed."""
    rows = [record for record in sorted(found, key=_cursor) if _cursor(record) > window.after_name]
    return page(rows[: window.limit + 1], window, _cursor, lambda record: record)


def _cursor(record: DeviceRecord | AppRecord) -> str:
    return f"{record.continuum}/{record.name}"
