"""Looking over a strategy's shoulder: what every node sent, received, computed and applied, and when; and random cases.

Properties of strategies are checked on ``spied(job)``: a simulated run whose nodes are wrapped, so that a test sees
every message with its contents in the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from littoral import testing
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Site
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.job import Fault, Job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.run import open_session
from littoral.supervisor import Supervisor


@dataclass(frozen=True)
class Act:
    """``kind`` is start, compute, computed, send, received, commit, update or load."""

    t: float
    generation: int
    node: str
    kind: str
    peer: str = ""
    what: Any = None  # the message, gradient, leases or vector


@dataclass
class Log:
    """Everything that nodes did, in order."""

    acts: list[Act] = field(default_factory=list)
    story: Any = None

    def of(self, kind: str, message: type[Any] | None = None) -> list[Act]:
        """The acts of one kind, perhaps with one kind of message."""
        return [a for a in self.acts if a.kind == kind and (message is None or isinstance(a.what, message))]


class SpiedNode:
    """A node that writes down what its program does. ``watch(act)`` is called for each act."""

    def __init__(self, node: Any, note: Callable[[Act], None]) -> None:
        self._node, self._note = node, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._node, name, value)

    def _write(self, kind: str, peer: str = "", what: Any = None) -> None:
        node = self._node
        self._note(Act(node.now, node.generation, node.name, kind, peer, what))

    async def compute(self) -> Any:
        self._write("compute")
        gradient = await self._node.compute()
        self._write("computed", what=gradient)
        return gradient

    async def send(self, target: str, message: Any) -> None:
        self._write("send", target, message)
        await self._node.send(target, message)

    async def receive(self, *kinds: Any, sender: str | None = None) -> Any:
        received = await self._node.receive(*kinds, sender=sender)
        self._write("received", received.sender, received.message)
        return received

    async def arrived(self, *kinds: Any) -> list[Any]:
        here: list[Any] = await self._node.arrived(*kinds)
        for received in here:
            self._write("received", received.sender, received.message)
        return here

    async def commit(self, leases: Any) -> Any:
        self._write("commit", what=leases)
        return await self._node.commit(leases)

    async def update(self, gradient: Any, samples: float, factor: float = 1.0, seen: float | None = None) -> None:
        self._write("update", what=(samples, factor))
        await self._node.update(gradient, samples, factor, seen)


class _Spied:
    """A strategy whose nodes are spied on."""

    def __init__(self, inner: Any, note: Callable[[Act], None]) -> None:
        self._inner, self._note = inner, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def worker(self, node: Any) -> None:
        self._note(Act(node.now, node.generation, node.name, "start"))
        await self._inner.worker(SpiedNode(node, self._note))

    async def server(self, node: Any) -> None:
        self._note(Act(node.now, node.generation, node.name, "start"))
        await self._inner.server(SpiedNode(node, self._note))


def spied(job: Job, *, seed: int = 0, timing_only: bool = False, watch: Callable[[Act], None] | None = None) -> Log:
    """Run a job in virtual time and write down what its nodes did; ``watch`` sees every act as it happens."""
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    session = open_session(job, task, plan, testing.MemoryKeeper(), seed=seed, timing_only=timing_only)
    log = Log()

    def note(act: Act) -> None:
        log.acts.append(act)
        if watch is not None:
            watch(act)

    session.strategy = _Spied(session.strategy, note)  # type: ignore[assignment]
    supervisor = Supervisor(plan, target=job.accuracy, on_failure=job.on_failure)
    story = log.story = testing.Story(plan, session=session)
    for command in supervisor.begin():
        session.perform(command)
    for event in session.events():
        story.events.append(event)
        for command in supervisor.handle(event):
            session.perform(command)
    return log


@dataclass(frozen=True)
class Case:
    """A small continuum of two sites at random, and what goes wrong on it."""

    speeds: tuple[float, ...]  # samples/s
    far: tuple[bool, ...]  # which workers are at the second site
    wan: float  # bytes/s between the sites
    wan_latency_s: float
    jitter: float
    planner: str
    seed: int
    faults: tuple[Fault, ...]

    @property
    def continuum(self) -> Continuum:
        """Workers w-1 ... at the sites lab and sea, and a hub at the lab."""
        plain = testing.small_continuum(self.speeds, bandwidth=1e6, latency_s=0.002, jitter=self.jitter)
        away = {f"w-{i + 1}" for i, far in enumerate(self.far) if far}
        devices = tuple(replace(d, site="sea") if d.name in away else d for d in plain.devices)
        lan, rate = plain.links[0], Constant(self.wan)
        wide = Link(a="lab", b="sea", forward=rate, backward=rate, latency_s=self.wan_latency_s)
        sites = (Site(name="lab"), Site(name="sea", tier="cloud"))
        return replace(plain, sites=sites, devices=devices, links=(lan, replace(lan, a="sea", b="sea"), wide))

    def job(self, strategy: str, *, epochs: int = 2, samples: int = 96, **settings: Any) -> Job:
        """A short job with a strategy."""
        job = testing.small_job(
            strategy=strategy, continuum=self.continuum, planner=self.planner, epochs=epochs, faults=self.faults,
            task={"samples": samples, "test_samples": 30, "batch": 4}, **settings,
        )  # fmt: skip
        return replace(job, seed=self.seed)


@st.composite
def cases(draw: Any, least: int = 2, most: int = 6, crashes: bool = False) -> Case:
    """Random cases; with ``crashes``, workers other than the first die, for good or for a while."""
    count = draw(st.integers(least, most))
    speeds = tuple(draw(st.floats(5.0, 200.0)) for _ in range(count))
    far = tuple(draw(st.booleans()) for _ in range(count))
    faults = ()
    if crashes and count > 1:
        one = st.builds(
            Fault, at_s=st.floats(0.0, 4.0), kind=st.just("crash"),
            node=st.sampled_from([f"w-{i + 1}" for i in range(1, count)]),
            seconds=st.sampled_from([0.5, 2.0, float("inf")]),
        )  # fmt: skip
        faults = tuple(sorted(draw(st.lists(one, max_size=3)), key=lambda fault: fault.at_s))
    return Case(
        speeds=speeds, far=far, wan=draw(st.sampled_from([2e3, 2e4, 1e6])),
        wan_latency_s=draw(st.sampled_from([0.001, 0.05, 0.3])), jitter=draw(st.sampled_from([0.0, 0.2, 1.0])),
        planner=draw(st.sampled_from(["fair", "proportional"])), seed=draw(st.integers(0, 99)), faults=faults,
    )  # fmt: skip
