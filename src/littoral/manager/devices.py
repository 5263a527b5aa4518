"""The live map: every device and app of every continuum, what it is doing, and the strikes against it.

Strikes are kept beside the runs' folders, as ``littoral.strikes`` says: after three losses in runs with ``on_failure:
deepedge`` a worker sits out some runs and is then tried again; an operator can pardon it. Strikes and heartbeats go by
a device's name, in whatever continuum it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from littoral.continuum.continuum import Continuum
from littoral.manager.continuums import Continuums
from littoral.manager.jobs import Jobs
from littoral.manager.launcher import Launcher
from littoral.manager.monitor import Beat, Monitor
from littoral.manager.paging import Page, Window, page_by_name
from littoral.manager.refusals import unknown
from littoral.manager.runs import Run, Runs, RunState
from littoral.profiling.rows import State
from littoral.strikes import LIMIT, PROBATION, Strikes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """``state``: idle, working, lost (silent, or lost in a run), done (its part is over) or excluded (three strikes).

    ``returns_in_runs`` is how many more runs an excluded device sits out; on ``probation`` the next loss excludes it,
    and a run to a good end takes a strike away. ``heartbeat`` is when it was last heard (null: it sends none),
    ``load`` what it said then.
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
    probation: bool = False
    heartbeat: float | None = None
    load: State | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What there is to know of devices, by name; ``busy`` by continuum and name, with numbers and states of runs."""

    strikes: Strikes
    beats: Mapping[str, Beat]
    busy: Mapping[tuple[str, str], list[tuple[int, str]]]


class Devices:
    """Looks at continuums, runs and strikes together."""

    def __init__(self, continuums: Continuums, jobs: Jobs, runs: Runs, launcher: Launcher, monitor: Monitor) -> None:
        self._continuums, self._jobs, self._runs, self._launcher = continuums, jobs, runs, launcher
        self._monitor = monitor

    def listed(self, window: Window, continuum: str | None = None, state: str | None = None) -> Page[DeviceRecord]:
        """Devices, by continuum and name."""
        found = [record for record in self.all(continuum) if state is None or record.state == state]
        return page_by_name(found, window, _cursor, lambda record: record)

    def all(self, continuum: str | None = None) -> Iterator[DeviceRecord]:
        """Every device as it is now."""
        known = _Known(strikes=self._monitor.strikes(), beats=self._monitor.beats(), busy=self._busy())
        for described in self._described(continuum):
            yield from _devices(described, known)

    def states(self) -> Counter[str]:
        """How many devices are in which state."""
        return Counter(record.state for record in self.all())

    def is_known(self, name: str) -> bool:
        """Whether a continuum has it, or it sends heartbeats already."""
        return name in self._monitor.beats() or any(name in one.device_names for one in self._continuums.all())

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
        return page_by_name(found, window, _cursor, lambda record: record)

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
            if name not in self._monitor.strikes().nodes:
                raise unknown("device", name)
        before = self._monitor.strikes().count(name)
        self._monitor.book.change_strikes(lambda strikes: strikes.pardoned(name))
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


def _devices(described: Continuum, known: _Known) -> Iterator[DeviceRecord]:
    for device in described.devices:
        work, beat = known.busy.get((described.name, device.name), []), known.beats.get(device.name)
        strikes, barred = known.strikes.count(device.name), known.strikes.excluded(device.name)
        yield DeviceRecord(
            continuum=described.name, name=device.name, site=device.site, tier=described.site(device.site).tier,
            kind=device.kind, memory_bytes=device.memory_bytes, price_usd_per_h=3600 * device.price_usd_per_s,
            state=_state([state for _, state in work], silent=beat is not None and beat.lost, barred=barred),
            runs=sorted({number for number, _ in work}), apps=[app.name for app in described.apps_on(device.name)],
            strikes=strikes, returns_in_runs=_sentence(known.strikes, device.name) if barred else None,
            probation=strikes == LIMIT - 1, heartbeat=beat.heard if beat else None, load=beat.load if beat else None,
        )  # fmt: skip


def _state(states: list[str], *, silent: bool, barred: bool) -> str:
    if silent or barred:
        return "lost" if silent else "excluded"
    return next((state for state in ("lost", "working", "done") if state in states), "idle")


def _sentence(strikes: Strikes, name: str) -> int:
    return max(0, strikes.nodes[name].lost_in_run + PROBATION - strikes.runs)


def _cursor(record: DeviceRecord | AppRecord) -> str:
    return f"{record.continuum}/{record.name}"
