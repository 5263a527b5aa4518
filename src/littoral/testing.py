"""For authors of strategies, planners and worlds: small continuums, scripted and random failures, contract checks.

>>> story = simulate(small_job(workers=2, strategy="allreduce", epochs=1), timing_only=True)
>>> story.reason
'epochs'
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from littoral.commands import Command
from littoral.continuum.app import Store
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.errors import RunFailed
from littoral.events import Evaluated, Event, Resumed, RunFinished, Used
from littoral.job import COORDINATOR, Fault, Job
from littoral.learning.leases import Span, prove
from littoral.learning.task import load_task
from littoral.planning.plan import Plan
from littoral.planning.planner import make_plan
from littoral.run import open_session
from littoral.strategies.strategy import make_strategy
from littoral.strikes import Strikes
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
    others = {"hub", *(store.device for store in described.stores)}
    names = tuple(name for name in described.device_names if name not in others)
    return Job(
        name="small", continuum=described, task=SYNTHETIC, task_options=SMALL_TASK | (task or {}), epochs=epochs,
        strategy=strategy, parameters=settings, planner=planner, workers=names, servers=("hub",), faults=tuple(faults),
    )  # fmt: skip


def fail_at(node: str, at_s: float, *, back_after_s: float = float("inf")) -> Fault:
    """A crash, scripted."""
    return Fault(at_s=at_s, kind="crash", node=node, seconds=back_after_s)


# -- storms -----------------------------------------------------------------------------------------------------

STORM_S = 30.0  # faults of a storm begin within this time; without them a stormy job mostly takes a little longer
SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("allreduce", {}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "bsp", "backups": 1}),
    ("parameter_server", {"mode": "ssp", "bound": 2}),
    ("parameter_server", {"mode": "asp"}),
    ("parameter_server", {"mode": "asp", "servers": 2}),
    ("parameter_server", {"mode": "asp", "ahead": 1}),
    ("adpsgd", {}),
    ("diloco", {"period": 3}),
    ("diloco", {"period": 6, "fragments": 2, "overlap": 1, "codec": "int8"}),
    ("diloco", {"mode": "async", "period": 3}),
    ("dlion", {"dkt_period": 5, "period": 6}),
    ("dpsgd", {"topology": "complete"}),
    ("dpsgd", {"topology": "ring", "codec": "int8"}),
    ("fedasync", {"local_steps": 2}),
    ("fedavg", {"local_steps": 2}),
    ("fedbuff", {"local_steps": 2, "buffer": 2}),
    ("gaia", {}),
    ("gaia", {"ahead": 1}),
    ("hop", {"staleness": 2}),
    ("hop", {"backups": 1, "max_jump": 3}),
    ("local_sgd", {"period": 4, "site_period": 2}),
    ("prague", {"group_size": 2}),
    ("prague", {"generator": "static"}),
    ("sgp", {"overlap": 1}),
)


def stormy_job(seed: int, *, scale: float = 1.0, survivable: bool = True) -> Job:
    """A tiny job of 2 to 5 workers at two sites, with any strategy and failure policy, and what goes wrong with it.

    Times are multiplied by ``scale``; in a world of real speeds, choose the epochs so that the run lasts long enough.
    """
    dice = random.Random(f"job/{seed}")
    strategy, parameters = dice.choice(SETTINGS)
    speeds = [dice.uniform(2.0, 6.0) for _ in range(dice.randint(2, 5))]
    samples = dice.choice([60, 120])
    job = small_job(
        strategy=strategy, planner=dice.choice(["fair", "proportional"]), task={"samples": samples},
        epochs=max(2, round(0.7 * STORM_S * sum(speeds) / samples)),  # waiting and talking take the rest of the time
        continuum=_coast([speed / scale for speed in speeds], 1.0 / scale), **parameters,
    )  # fmt: skip
    job = replace(job, on_failure=dice.choice(["elastic", "deepedge"]), seed=seed)
    return replace(job, faults=random_faults(seed, job, scale=scale, survivable=survivable))


def _coast(speeds: Sequence[float], pace: float) -> Continuum:
    """Workers at two sites in turn; hub and store at the first. The store's port needs seconds for everybody's data."""
    described = small_continuum(speeds, bandwidth=1e5 * pace, latency_s=0.01 / pace, jitter=0.1)
    shore = [replace(device, site="sea") if device.name in ("w-2", "w-4") else device for device in described.devices]
    depot = replace(_device("depot", 1.0, 0.0), uplink=Constant(2e3 * pace))
    wan, lan = Constant(2e4 * pace), described.links[0]
    far = Link(a="lab", b="sea", forward=wan, backward=wan, latency_s=0.03 / pace)
    links = (lan, replace(lan, a="sea", b="sea"), far)
    return replace(
        described, sites=(Site(name="lab"), Site(name="sea", tier="fog")), devices=(*shore, depot), links=links,
        stores=(Store(name="disk", site="lab", device="depot"),),
    )  # fmt: skip


def random_faults(seed: int, job: Job, *, scale: float = 1.0, survivable: bool = True) -> tuple[Fault, ...]:
    """One to six faults within ``STORM_S`` seconds: workers, servers, stores and the coordinator killed, links cut for
    5 s or slow, workers paused for 10 s or slow. All times are multiplied by ``scale``.

    A ``survivable`` storm leaves at least one worker and every store able to come back.
    """
    dice = random.Random(f"faults/{seed}")
    drawn = (dice.choice(_kinds(job))(dice, job) for _ in range(dice.randint(1, 6)))
    faults = sorted(drawn, key=lambda fault: fault.at_s)
    spared = {job.workers[0], *(store.name for store in job.continuum.stores)} if survivable else set()
    return tuple(
        replace(fault, at_s=scale * fault.at_s, seconds=scale * (min(fault.seconds, 3.0) if gone else fault.seconds))
        for fault in faults
        for gone in [fault.kind == "crash" and fault.node in spared]
    )


_Draw = Callable[[random.Random, Job], Fault]
_FOREVER = float("inf")


def _kinds(job: Job) -> list[_Draw]:
    """What can go wrong with a job; workers fail more often, since there are more of them."""
    kinds: list[_Draw] = [_worker_killed, _worker_killed, _worker_paused, _coordinator_killed, _cut, _slow, _slow_link]
    kinds += [_server_killed] if make_strategy(job.strategy, job.parameters).models == "served" else []
    return kinds + ([_store_killed] if job.continuum.stores else [])


def _worker_killed(dice: random.Random, job: Job) -> Fault:
    seconds = dice.choice([0.5, 3.0, 8.0, _FOREVER])
    return Fault(at_s=_soon(dice), kind="crash", node=dice.choice(job.workers), seconds=seconds)


def _server_killed(dice: random.Random, job: Job) -> Fault:
    name = f"ps-{dice.randint(1, job.parameters.get('servers', 1))}"
    return Fault(at_s=_soon(dice), kind="crash", node=name, seconds=dice.choice([3.0, _FOREVER]))


def _store_killed(dice: random.Random, job: Job) -> Fault:
    """While data is still on its way, mostly."""
    store = dice.choice(job.continuum.stores).name
    return Fault(at_s=_soon(dice) / 8, kind="crash", node=store, seconds=dice.choice([1.0, 5.0, _FOREVER]))


def _coordinator_killed(dice: random.Random, job: Job) -> Fault:
    return Fault(at_s=_soon(dice), kind="crash", node=COORDINATOR, seconds=dice.choice([2.0, _FOREVER]))


def _worker_paused(dice: random.Random, job: Job) -> Fault:
    return Fault(at_s=_soon(dice), kind="pause", node=dice.choice(job.workers), seconds=10.0)


def _slow(dice: random.Random, job: Job) -> Fault:
    node, factor = dice.choice(job.workers), dice.uniform(0.1, 0.5)
    return Fault(at_s=_soon(dice), kind="slow-device", node=node, seconds=10.0, factor=factor)


def _cut(dice: random.Random, job: Job) -> Fault:
    return Fault(at_s=_soon(dice), kind="partition", link=_link(dice, job), seconds=5.0)


def _slow_link(dice: random.Random, job: Job) -> Fault:
    factor = dice.uniform(0.02, 0.5)
    return Fault(at_s=_soon(dice), kind="slow-link", link=_link(dice, job), seconds=10.0, factor=factor)


def _link(dice: random.Random, job: Job) -> tuple[str, str]:
    link = dice.choice(job.continuum.links)
    return link.a, link.b


def _soon(dice: random.Random) -> float:
    return dice.uniform(0.0, STORM_S)


# -- runs to look at --------------------------------------------------------------------------------------------


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
    """A run, in whatever world, to look at afterwards. A simulated one has its ``session`` too."""

    plan: Plan
    events: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    session: Session | None = None
    strikes: Strikes = field(default_factory=Strikes)

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
    """The spans whose gradients are in the final model: a rollback takes back what its checkpoint does not have."""
    used: list[Used] = []
    for event in events:
        if isinstance(event, Resumed):
            # By count, not by time: samples may be used at the very instant of a checkpoint, but after it.
            total = accumulate(one.samples for one in used)
            used = used[: sum(so_far <= event.samples for so_far in total)]
        elif isinstance(event, Used):
            used.append(event)
    return [Span(*row) for one in used for row in one.spans]


def simulate(
    job: Job, *, plan: Plan | None = None, seed: int = 0, timing_only: bool = False, keeper: Any = None,
    resume: bool = False, strikes: Strikes | None = None, on_start: Callable[[], None] = lambda: None,
) -> Story:  # fmt: skip
    """Run a job in virtual time without touching a disk."""
    task = load_task(job.task, job.task_options, job.recipe)
    decided = plan or make_plan(job, task.footprint(), task.recipe)
    session = open_session(job, task, decided, keeper or MemoryKeeper(), seed=seed, timing_only=timing_only)
    if resume:
        session.resume()
    supervisor = Supervisor(decided, target=job.accuracy, plateau=job.plateau, on_failure=job.on_failure,
                            strikes=strikes)  # fmt: skip
    story = Story(decided, session=session)

    def obey(commands: Sequence[Command]) -> None:
        for command in commands:
            story.commands.append(command)
            session.perform(command)

    on_start()
    obey(supervisor.begin())
    for event in session.events():
        story.events.append(event)
        obey(supervisor.handle(event))
    story.strikes = supervisor.strikes
    return story


def check_strategy(
    name: str, faults: Sequence[Fault] = (), *, run: Callable[[Job], Story] = simulate, **settings: Any
) -> Story:
    """The contract every strategy keeps: it ends, it learns, and every sample was used exactly once per epoch.

    ``run`` runs a job in some world and tells its story; in a world of real time, give faults times that suit it.
    """
    story = run(small_job(strategy=name, faults=faults, epochs=4, **settings))
    if story.reason != "epochs":
        raise RunFailed(f"{name} ended with {story.reason!r}")
    wrong = story.contradictions()
    if wrong:
        raise RunFailed(f"{name}: {wrong[0]}")
    if not story.accuracies[-1] > story.accuracies[0]:
        raise RunFailed(f"{name} learned nothing: {story.accuracies}")
    return story


def live(
    job: Job, *, plan: Plan | None = None, seed: int = 0, launcher: Any = None, ground: Any = None, keeper: Any = None,
    folder: Path | None = None, world: str = "processes", address: str = "", strikes: Strikes | None = None,
    watch: Callable[[Event], None] = lambda event: None, judged: bool = True,
) -> Story:  # fmt: skip
    """Run a job with real processes; one ``launcher`` may serve many runs, which saves their start-up."""
    from littoral.worlds.opening import open_live

    task = load_task(job.task, job.task_options, job.recipe)
    decided = plan or make_plan(job, task.footprint(), task.recipe)
    supervisor = Supervisor(decided, target=job.accuracy, plateau=job.plateau, on_failure=job.on_failure,
                            strikes=strikes)  # fmt: skip
    story = Story(decided)
    with open_live(
        job, task, decided, keeper or MemoryKeeper(), seed=seed, launcher=launcher, ground=ground, folder=folder,
        world=world, address=address, judged=judged,
    ) as session:  # fmt: skip
        for command in supervisor.begin():
            session.perform(command)
        for event in session.events():
            story.events.append(event)
            watch(event)
            for command in supervisor.handle(event):
                story.commands.append(command)
                session.perform(command)
    story.strikes = supervisor.strikes
    return story
