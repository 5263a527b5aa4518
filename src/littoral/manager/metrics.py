"""Figures for Prometheus, in a registry of their own. What the database knows is read when somebody asks.

Labels are routes, states, and the names that operators gave; of names the first ``MOST`` are shown.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import littoral
from littoral.manager.health import find_faults
from littoral.manager.runs import RunState

if TYPE_CHECKING:
    from littoral.manager.manager import Manager

MOST = 1000  # series of one figure
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The figures of one manager."""

    def __init__(self, manager: Manager) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "littoral_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "littoral_request_seconds", "Until the answer began.", ["route"], buckets=_BUCKETS, registry=self._registry
        )
        self.in_flight = Gauge("littoral_requests_in_flight", "Being answered now.", registry=self._registry)
        self._registry.register(_Kept(manager))
        ProcessCollector(registry=self._registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        return generate_latest(self._registry)


class _Kept(Collector):
    """What the database, the disk and the parts of the manager say."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def describe(self) -> Iterable[Metric]:
        return ()  # collecting needs a database, which is not there for the asking

    def collect(self) -> Iterator[Metric]:
        manager = self._manager
        yield _gauge("littoral_info", "The release that serves.", [((littoral.__version__,), 1)], ["version"])
        faults = find_faults(manager)
        rows = [((name,), 0 if fault else 1) for name, fault in faults.items()]
        yield _gauge("littoral_healthy", "Whether a check of /health passes.", rows, ["check"])
        yield _gauge(
            "littoral_samples_waiting", "Samples that wait for the disk.", [((), manager.life.samples.waiting)]
        )
        answered = [((name,), count) for name, count in sorted(manager.life.serving.answered.items())]
        yield _counter("littoral_predictions", "Inputs answered since the start.", answered, ["model"])
        states = manager.devices.states()
        known = ("idle", "working", "lost", "done", "excluded")
        yield _gauge("littoral_devices", "Devices.", [((state,), states[state]) for state in known], ["state"])
        yield from self._disk()
        with manager.database.read() as connection:
            yield from _stored(connection)

    def _disk(self) -> Iterator[Metric]:
        database = self._manager.database.path
        files = [database, database.with_name(f"{database.name}-wal")]
        size = sum(path.stat().st_size for path in files if path.exists())
        yield _gauge("littoral_database_bytes", "Of the database and its log.", [((), size)])
        free = shutil.disk_usage(self._manager.folder).free
        yield _gauge("littoral_disk_free_bytes", "Where the data folder is.", [((), free)])


def _stored(connection: Connection) -> Iterator[Metric]:
    def rows(query: str, *parameters: Any) -> list[tuple[tuple[str, ...], float]]:
        found = connection.execute(f"{query} LIMIT {MOST}", parameters)
        return [(tuple(str(value) for value in tuple(row)[:-1]), float(row[-1])) for row in found]

    by_state = dict(rows("SELECT state, count(*) FROM runs GROUP BY state"))
    runs = [((state.value,), by_state.get((state.value,), 0.0)) for state in RunState]
    yield _gauge("littoral_runs", "Runs by state; those queued wait for their turn.", runs, ["state"])
    updates = rows("SELECT state, count(*) FROM updates GROUP BY state")
    yield _gauge("littoral_updates", "Updates of models by state or outcome.", updates, ["state"])
    received = rows("SELECT name, received FROM stores ORDER BY name")
    yield _counter("littoral_samples_received", "Samples accepted since the store was made.", received, ["store"])
    kept = rows("SELECT name, kept FROM stores ORDER BY name")
    yield _gauge("littoral_samples_kept", "Samples in the store now.", kept, ["store"])
    versions = rows("SELECT model, number FROM versions WHERE state = 'current' ORDER BY model")
    yield _gauge("littoral_model_version", "The version that is served.", versions, ["model"])
    query = "SELECT model, accuracy FROM versions WHERE state = 'current' AND accuracy IS NOT NULL ORDER BY model"
    accuracy = "Of the served version, on held-out data when it was judged."
    yield _gauge("littoral_model_held_out_accuracy", accuracy, rows(query), ["model"])
    levels = rows(
        """SELECT triggers.model, triggers.number, triggers.kind, signals.level FROM triggers JOIN signals ON
           signals.number = (SELECT max(number) FROM signals WHERE trigger = triggers.number) ORDER BY 2"""
    )
    yield _gauge(
        "littoral_trigger_level",
        "How near a trigger is to firing, at 1; drift, for one of that kind.",
        levels,
        ["model", "trigger", "kind"],
    )
    events = rows("SELECT coalesce(max(number), 0) FROM events")
    yield _counter("littoral_events", "Events told.", events)


Rows = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, rows: Rows, labels: list[str] | None = None) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels or [])
    for values, figure in rows:
        family.add_metric(values, figure)
    return family


def _counter(name: str, text: str, rows: Rows, labels: list[str] | None = None) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels or [])
    for values, figure in rows:
        family.add_metric(values, figure)
    return family
