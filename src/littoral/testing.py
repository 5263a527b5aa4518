"""For authors of strategies, planners and worlds: small continuums, scripted failures, and contract checks.

>>> story = simulate(small_job(workers=2, strategy="allreduce", epochs=1), timing_only=True)
>>> story.reason
'epochs'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from littoral.commands import Command
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.errors import RunFailed
from littoral.events import Evaluated, Event, Resumed, RunFinished, Used
from littoral.job import Fault, Job
from littoral.learning.leases import Span, prove
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.run import open_session
from littoral.supervisor import Supervisor
from littoral.worlds.simulated.session import Session

SYNTHETIC = "littoral.tasks.synthetic"
SMALL_TASK = {"samples": 240, "test_samples": 60, "classes": 3, "features": 8, "width": 0.05, "batch": 8}


def small_continuum(
    speeds: Sequence[float] = (100.0, 50.0, 25.0),
    *,
    bandwidth: float = 1e6,
    latency_s: float = 0.01,
    jitter: float = 0.0,
) -> Continuum:
    """One site: worker ``w-i`` does ``speeds[i-1]`` samples/s, ``hub`` may serve; ports of ``bandwidth`` bytes/s."""
    devices = [_device(f"w-{i + 1}", speed, jitter) for i, speed in enumerate(speeds)]
    link = Link(a="lab", b="lab", forward=Constant(bandwidth), backward=Constant(bandwidth), latency_s=latency_s)
    return Continuum(
        name="small", sites=(Site(name="lab"),), devices=(*devices, _device("hub", 1.0, 0.0)), links=(link,)
    )


def _device(name: str, speed: float, jitter: float) -> Device:
    step = StepTime(seconds_per_sample=1.0 / speed)
    return Device(name=name, site="lab", step=step, memory_bytes=1e9, jitter=jitter)


def small_job(
    *, workers: int = 3, strategy: str = "allreduce", planner: str = "proportional", epochs: int = 2,
    continuum: Continuum | None = None, faults: Sequence[Fault] = (), task: dict[str, Any] | None = None,
    **settings: Any,
) -> Job:  # fmt: skip
    """A job of a second or two on a small continuum; ``settings`` are the strategy's parameters."""
    described = continuum or small_continuum([100.0 / (i + 1) for i in range(workers)])
    names = tuple(name for name in described.device_names if name != "hub")
    return Job(
        name="small", continuum=described, task=SYNTHETIC, task_options=SMALL_TASK | (task or {}), epochs=epochs,
        strategy=strategy, parameters=settings, planner=planner, workers=names, servers=("hub",), faults=tuple(faults),
    )  # fmt: skip


def fail_at(node: str, at_s: float, *, back_after_s: float = float("inf")) -> Fault:
    """A crash, scripted."""
    return Fault(at_s=at_s, kind="crash", node=node, seconds=back_after_s)


class MemoryKeeper:
    """Keeps the last checkpoint in memory."""

    def __init__(self) -> None:
        self.saved: tuple[dict[str, Any], dict[str, Any]] | None = None

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        self.saved = copies, dict(metadata)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The last checkpoint."""
        return self.saved


@dataclass
class Story:
    """A simulated run, to look at afterwards."""

    plan: Plan
    session: Session
    events: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def reason(self) -> str:
        """Why it ended."""
        return str(self.of(RunFinished)[-1].reason)

    @property
    def time_s(self) -> float:
        """When it ended."""
        return self.events[-1].t

    @property
    def accuracies(self) -> list[float]:
        """Every evaluation."""
        return [event.accuracy for event in self.of(Evaluated)]

    def contradictions(self) -> list[str]:
        """What speaks against "each sample exactly once per epoch"."""
        return prove({w.name: w.shard for w in self.plan.workers}, used_spans(self.events), self.plan.epochs)


def used_spans(events: Sequence[Event]) -> list[Span]:
    """The spans whose gradients are in the final model: a rollback takes back what came after its checkpoint."""
    used: list[tuple[float, Span]] = []
    for event in events:
        if isinstance(event, Resumed):
            used = [(t, span) for t, span in used if t <= event.since]
        elif isinstance(event, Used):
            used += [(event.t, Span(*row)) for row in event.spans]
    return [span for _, span in used]


def simulate(
    job: Job, *, plan: Plan | None = None, seed: int = 0, timing_only: bool = False, keeper: Any = None,
    resume: bool = False,
    on_start: Callable[[], None] = lambda: None,
) -> Story:  # fmt: skip
    """Run a job in virtual time without touching a disk."""
    task = load_task(job.task, job.task_options, job.recipe)
    decided = plan or make_plan(job, task.footprint(), task.recipe)
    session = open_session(job, task, decided, keeper or MemoryKeeper(), seed=seed, timing_only=timing_only)
    if resume:
        session.resume()
    story = Story(decided, session)
    supervisor = Supervisor(decided, target=job.accuracy, on_failure=job.on_failure)
    on_start()
    for event in session.events():
        story.events.append(event)
        for command in supervisor.handle(event):
            story.commands.append(command)
            session.perform(command)
    return story


def check_strategy(name: str, faults: Sequence[Fault] = (), **settings: Any) -> Story:
    """The contract every strategy keeps: it ends, it learns, and every sample was used exactly once per epoch."""
    job = small_job(strategy=name, faults=faults, epochs=4, **settings)
    story = simulate(job)
    if story.reason != "epochs":
        raise RunFailed(f"{name} ended with {story.reason!r}")
    wrong = story.contradictions()
    if wrong:
        raise RunFailed(f"{name}: {wrong[0]}")
    if not story.accuracies[-1] > story.accuracies[0]:
        raise RunFailed(f"{name} learned nothing: {story.accuracies}")
    return story
