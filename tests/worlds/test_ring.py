"""The all-reduce that happens as one act, against the same by single messages: direct in small groups, else a ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from littoral.continuum.link import HEADER_BYTES
from littoral.events import Computed, Used
from littoral.learning.mathematics import TimingOnly
from littoral.learning.phantom import Phantom
from littoral.learning.task import load_task
from littoral.planning.collective import DIRECT
from littoral.planning.planner import make_plan
from littoral.strategies.strategy import Source
from littoral.supervisor import Supervisor
from littoral.testing import MemoryKeeper, simulate, small_continuum, small_job
from littoral.worlds.node import Message, Node
from littoral.worlds.simulated.session import Session

TASK = {"features": 100, "width": 1.0, "classes": 10, "samples": 160, "batch": 8}  # 22,210 floats


class Chunk(Message, frozen=True):
    vector: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMessages:
    """Reduce-scatter and all-gather by 2(n-1) messages per node."""

    name: ClassVar[str] = "by_messages"
    models: ClassVar[str] = "alike"
    limit: ClassVar[float] = 0

    async def worker(self, node: Node) -> None:
        members = node.members
        n, me = len(members), members.index(node.name)
        while True:
            gradient = await node.compute()
            if gradient.lease is None:
                return
            chunk = Phantom(len(gradient.vector) // n)
            if n <= DIRECT:
                await self._exchange(node, chunk)
            else:
                for _ in range(2 * (n - 1)):
                    await node.send(members[(me + 1) % n], Chunk(chunk))
                    await node.receive(Chunk, sender=members[(me - 1) % n])
            await node.commit([gradient.lease])
            await node.update(gradient.vector, gradient.samples)

    async def _exchange(self, node: Node, chunk: Any) -> None:
        others = [name for name in node.members if name != node.name]
        for _ in range(2):  # shares to their owners, means to everybody
            for other in others:
                await node.send(other, Chunk(chunk))
            for other in others:
                await node.receive(Chunk, sender=other)

    async def server(self, node: Node) -> None:
        raise AssertionError

    def tune(self, recipe: Any, workers: int) -> Any:
        return recipe

    def sources(self, plan: Any, members: tuple[str, ...], length: int) -> list[Source]:
        return [Source(node=members[0], start=0, stop=length)]


def seconds_by_messages(job: Any) -> float:
    task = load_task(job.task, job.task_options)
    plan = make_plan(job, task.footprint(), task.recipe)
    session = Session(
        job=job,
        plan=plan,
        strategy=ByMessages(),
        footprint=task.footprint(),
        mathematics=TimingOnly(task.footprint()),
        keeper=MemoryKeeper(),
        seed=0,
    )
    supervisor, last = Supervisor(plan), 0.0
    for event in session.events():
        last = event.t if isinstance(event, Used | Computed) else last
        for command in supervisor.handle(event):
            session.perform(command)
    return last


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize(("bandwidth", "latency_s"), [(1e5, 0.0), (1e5, 0.02), (1e7, 0.1)])
def test_one_act_takes_as_long_as_all_the_messages(n: int, bandwidth: float, latency_s: float) -> None:
    continuum = small_continuum([100.0] * n, bandwidth=bandwidth, latency_s=latency_s)
    job = small_job(continuum=continuum, epochs=1, planner="fair", task=TASK)
    story = simulate(job, timing_only=True)
    act = story.of(Used)[-1].t
    steps = 160 / n / 8
    # Each message of a ring has a header; the one act counts one.
    headers = steps * (2 * (n - 1) - 1) * HEADER_BYTES / bandwidth if n > DIRECT else 0.0
    assert seconds_by_messages(job) == pytest.approx(act + headers, rel=0.01)
