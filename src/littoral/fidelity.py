"""How true is the simulator? The same job, the same plan, in the lab and in virtual time, side by side.

Step times are measured first, on all devices of the lab at once, and what a message costs the processor; links carry
what TCP gets of them. Everything else the simulator takes from the continuum's description, as it does for a user who
has no lab.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Handling, StepTime
from littoral.continuum.signal import Scaled
from littoral.deciding import decide
from littoral.events import Computed, EpochFinished, Evaluated, Event, Fetched, RunFinished, Sent, Used
from littoral.job import Job
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.testing import live, simulate
from littoral.worlds.processes.ground import Ground

if TYPE_CHECKING:
    from littoral.worlds.lab.lab import Lab
    from littoral.worlds.lab.steps import Steps
    from littoral.worlds.processes.launch import Launcher

BATCHES = (8, 32, 128)
GOODPUT = 0.956  # of a link's rate at an MTU of 1500 bytes: the rest is headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one run of the job took."""

    time_s: float
    epoch_s: float
    epoch_bytes: float  # sent per epoch's worth of samples: one run may reach a target sooner than the other
    waits: dict[str, float]  # share of the time that a worker did not compute
    accuracies: tuple[tuple[int, float], ...]  # after so many samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Predicted against measured."""

    job: str
    strategy: str
    plan: Plan
    predicted: Account
    measured: Account

    @property
    def epoch_error(self) -> float:
        """Relative; positive: the simulator was too pessimistic."""
        return self.predicted.epoch_s / self.measured.epoch_s - 1

    @property
    def bytes_error(self) -> float:
        """Relative."""
        return self.predicted.epoch_bytes / max(1.0, self.measured.epoch_bytes) - 1

    @property
    def wait_error(self) -> float:
        """Mean over workers of the difference of their waiting shares."""
        names = self.predicted.waits
        return statistics.mean(abs(self.predicted.waits[name] - self.measured.waits[name]) for name in names)

    @property
    def curve_distance(self) -> float:
        """Mean difference of accuracy after the same number of samples."""
        return curve_distance(self.predicted.accuracies, self.measured.accuracies)


def curve_distance(one: Sequence[tuple[int, float]], other: Sequence[tuple[int, float]]) -> float:
    """Mean absolute difference of two accuracy curves where they overlap, each taken as a broken line.

    >>> curve_distance([(0, 0.0), (10, 1.0)], [(0, 0.5), (10, 0.5)])
    0.25
    """
    import numpy as np

    last = min(one[-1][0], other[-1][0])
    grid = np.linspace(0, last, 101)
    curves = [np.interp(grid, [s for s, _ in curve], [a for _, a in curve]) for curve in (one, other)]
    return round(float(np.trapezoid(np.abs(curves[0] - curves[1]), grid) / last), 6) if last else 0.0


def account(events: Sequence[Event], plan: Plan) -> Account:
    """Read a run's account from its events; epochs count from when the last worker had its data."""
    end = next(event.t for event in reversed(events) if isinstance(event, RunFinished))
    fetched = max((event.t for event in events if isinstance(event, Fetched)), default=0.0)
    epochs = [event.t for event in events if isinstance(event, EpochFinished)]
    sent = sum(event.size for event in events if isinstance(event, Sent))
    used = sum(event.samples for event in events if isinstance(event, Used))
    busy = dict.fromkeys((worker.name for worker in plan.workers), 0.0)
    for event in events:
        if isinstance(event, Computed):
            busy[event.node] += event.t - event.start
    return Account(
        time_s=end,
        epoch_s=(max(epochs) - fetched) / len(epochs) if epochs else end,
        epoch_bytes=sent * plan.samples / max(1, used),
        waits={name: 1 - seconds / end for name, seconds in busy.items()},
        accuracies=tuple((event.samples, event.accuracy) for event in events if isinstance(event, Evaluated)),
    )


def measured_continuum(job: Job, lab: Lab, batches: Sequence[int] = BATCHES, seconds: float = 4.0) -> Continuum:
    """The job's continuum with step times as they are on the lab's devices."""
    from littoral.worlds.lab.handling import measure_handling
    from littoral.worlds.lab.steps import measure_steps

    places = {name: lab.place(name) for name in job.workers or job.continuum.device_names}
    found = measure_steps(places, job.task, job.task_options, batches, seconds)
    core = measure_handling()
    described = job.continuum
    devices = [_timed(device, found.get(device.name), core, lab.quotas[device.name]) for device in described.devices]
    links = [
        replace(link, forward=_goodput(link.forward), backward=_goodput(link.backward)) for link in described.links
    ]
    return replace(described, devices=tuple(devices), links=tuple(links))


def _timed(device: Device, steps: Steps | None, core: Handling, share: float) -> Device:
    """The device as the lab has it: ``core`` is what messages cost a whole core."""
    handling = Handling(per_message_s=core.per_message_s / share, per_byte_s=core.per_byte_s / share)
    ports = replace(device, uplink=_goodput(device.uplink), downlink=_goodput(device.downlink), handling=handling)
    if steps is None:
        return ports
    step = StepTime(fixed_seconds=steps.fixed_s, seconds_per_sample=steps.per_sample_s)
    return replace(ports, step=step, jitter=steps.jitter)


def _goodput(rate: Any) -> Any:
    return None if rate is None else Scaled(rate, GOODPUT)


def compare_worlds(
    job: Job, lab: Lab, launcher: Launcher | None = None, *, measured: Continuum | None = None, seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Fidelity:  # fmt: skip
    """Run a job in a lab that is up and in simulation."""
    if measured is None:
        progress("measuring step times on every device")
        measured = measured_continuum(job, lab)
    known = replace(job, continuum=measured)
    task = load_task(job.task, job.task_options, job.recipe)
    plan = decide(known, task)
    progress("running in virtual time")
    foretold = account(simulate(known, plan=plan, seed=seed).events, plan)
    progress(f"running in the lab: about {foretold.time_s:.0f} s")
    lab.set_home((plan.servers or plan.workers)[0].device)
    with tempfile.TemporaryDirectory() as folder:
        story = live(known, plan=plan, seed=seed, launcher=launcher, ground=Ground(lab), folder=Path(folder))
    name = " ".join([plan.strategy, *(f"{key}={value}" for key, value in plan.parameters.items())])
    return Fidelity(job=job.name, strategy=name, plan=plan, predicted=foretold, measured=account(story.events, plan))


def fidelity_document(fidelity: Fidelity) -> dict[str, Any]:
    """For ``--json``."""
    from dataclasses import asdict

    return {
        "job": fidelity.job, "strategy": fidelity.strategy, "epoch_error": fidelity.epoch_error,
        "bytes_error": fidelity.bytes_error, "wait_error": fidelity.wait_error,
        "curve_distance": fidelity.curve_distance, "predicted": asdict(fidelity.predicted),
        "measured": asdict(fidelity.measured),
    }  # fmt: skip
