"""Opens a live run: real processes on this machine, in the lab, or on a Ray cluster, and ends all of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from littoral.errors import InputError
from littoral.job import Job
from littoral.learning.mathematics import RealMathematics
from littoral.learning.task import Task
from littoral.planning.plan import Plan
from littoral.strategies.strategy import make_strategy
from littoral.worlds.processes.cards import Cards, cards_for
from littoral.worlds.processes.faults import check_faults
from littoral.worlds.processes.ground import Ground
from littoral.worlds.processes.launch import Forge, Launcher
from littoral.worlds.processes.seats import seats_of
from littoral.worlds.processes.session import Session
from littoral.worlds.simulated.books import Keeper

if TYPE_CHECKING:
    from littoral.worlds.lab.lab import Lab


@contextmanager
def open_live(
    job: Job, task: Task, plan: Plan, keeper: Keeper, *, seed: int, world: str = "processes", lab: bool = False,
    address: str = "", folder: Path | None = None, launcher: Launcher | None = None,
    ground: Ground | None = None, struck: int = 0, judged: bool = True,
) -> Iterator[Session]:  # fmt: skip
    """A live run that has not begun; a ``launcher`` and a ``ground`` that are given are used and left as they are.

    A run that is not ``judged`` has no accuracy, and nobody who works it out beside the devices whose times count.
    """
    check_faults(job, lab or (ground is not None and ground.lab is not None))
    cards = Cards()
    with ExitStack() as stack:
        if world == "processes":
            launcher = launcher or stack.enter_context(Forge())
            ground = ground or Ground(stack.enter_context(_lab(job, plan, seed)) if lab else None)
            cards = stack.enter_context(cards_for([job.continuum.device(worker.device) for worker in plan.workers]))
        elif world == "ray":
            from littoral.worlds.ray.cluster import RayGround, join
            from littoral.worlds.ray.launch import RayLauncher

            devices = {seat.device: None for seat in seats_of(job, plan).values()}
            cluster = stack.enter_context(join(address, devices))
            launcher, ground = launcher or RayLauncher(cluster), ground or RayGround(cluster=cluster)
        else:
            raise InputError(f"unknown world {world!r}", remedy="name simulated, processes or ray")
        strategy = make_strategy(plan.strategy, plan.parameters)
        recipe = strategy.tune(task.recipe, len(plan.workers))
        session = Session(
            job=job, plan=plan, strategy=strategy, keeper=keeper, seed=seed, launcher=launcher, ground=ground,
            mathematics=RealMathematics(task, plan, seed, recipe, evaluates=judged), folder=folder, struck=struck,
            cards=cards,
        )  # fmt: skip
        with closing(session):
            yield session


def _lab(job: Job, plan: Plan, seed: int) -> Lab:
    from littoral.worlds.lab.lab import Lab

    lab = Lab.up(job.continuum, seed=seed)
    lab.set_home((plan.servers or plan.workers)[0].device)
    return lab
