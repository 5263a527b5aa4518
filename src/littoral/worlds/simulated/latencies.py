"""How long apps take in virtual time, where a profile tells: as measured on their device's kind.

A period's latency is drawn when it is released: log-normal, with the mean and the 95th percentile foretold for the
state of the device. That is the calmest state measured, with the described load on top; while a worker trains there, it
is the state that training with the plan's batch brings about. What a server does to its device is left out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from littoral.job import Job, blame
from littoral.planning.plan import Plan
from littoral.planning.profiled import calm_state
from littoral.profiling.estimators import Estimators, estimators
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import Profile, load
from littoral.profiling.rows import State
from littoral.profiling.spread import through

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session

Spreads = dict[tuple[str, str], tuple[float, float]]  # by app and device: of the logarithm, mean and deviation


class Latencies:
    """Draws what an app's period takes on a device, with a stream of its own for each pair."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workers = {worker.device: worker.name for worker in session.plan.workers}
        with blame(session.job, "profile"):
            self._calm, self._training = foretold(session.job, session.plan)
        self._draws = {place: session.random("latency/" + "/".join(place)).lognormvariate for place in self._calm}

    def draw(self, app: str, device: str) -> float | None:
        """Seconds that a period takes which is released now; None where a fault has stopped the device."""
        spreads, speed = self._training if self._trains(device) else self._calm, self._session.machines[device].speed
        return self._draws[app, device](*spreads[app, device]) / speed if speed else None

    def _trains(self, device: str) -> bool:
        """Whether a worker is at work there: its program runs, with its data there and samples left."""
        worker, session = self._workers.get(device), self._session
        if worker is None or not session.nodes[worker].running:
            return False
        return session.stores.has_supplied(worker) and session.books.ledger.has_work(worker)


def foretold(job: Job, plan: Plan) -> tuple[Spreads, Spreads]:
    """The latencies of every app on every device it is on: without training, and with it where the plan trains."""
    assert job.profile is not None
    profile, batches = load(Path(job.profile)), {worker.device: worker.batch for worker in plan.workers}
    places = [(app.name, device) for app in job.continuum.apps for device in app.on]
    kinds = kinds_of(job, [device for _, device in places])
    trained = {kinds[device] for _, device in places if device in batches}
    known = {kind: _asked(profile, kind, job.workload, kind in trained) for kind in dict.fromkeys(kinds.values())}

    @cache  # many devices are alike
    def spread(kind: str, app: str, state: State, batch: int) -> tuple[float, float]:
        mu, sigma = through(*_latency(known[kind], app, state, batch))
        return float(mu), float(sigma)

    calm, training = {}, {}
    for app, device in places:
        kind = kinds[device]
        state = calm_state(job, device, _states(profile, known[kind], app))
        calm[app, device] = spread(kind, app, state, 0)
        if device in batches:
            training[app, device] = spread(kind, app, state, batches[device])
    return calm, training


def _asked(profile: Profile, kind: str, task: str, trains: bool) -> Estimators:
    """Of a kind that does not train, nothing but its apps need have been measured."""
    return estimators(profile, kind, task) if trains else Estimators(profile, kind, task, None)


def _states(profile: Profile, one: Estimators, app: str) -> list[State]:
    """States before training; of a kind that was never trained on, those in which the app was measured."""
    one.estimator(f"exec:{app}")  # refuses an app that was not measured
    before = [row.before for row in profile.training_of(one.kind, one.task)]
    return before or [row.state for row in profile.app_rows_of(one.kind, app)]


def _latency(one: Estimators, app: str, state: State, batch: int) -> tuple[float, float]:
    """The mean and the 95th percentile of an app's latencies in a state, beside training with that batch, if any."""
    mean, tail = one.exec_time(app, state, batch, level=None), one.tail_time(app, state, batch, level=None)
    return float(mean.mean[0]), float(tail.mean[0])
