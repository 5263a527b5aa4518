"""A plan tried in virtual time, without mathematics: how long a strategy takes that has no formula.

A rehearsal runs the first rounds only and goes on from there: each worker at the pace it had after the first third.
It leaves the job's faults out, what changes with time later than it lasted, and apps' measured latencies: they load
their devices as described either way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from littoral.events import RunFinished, Used
from littoral.job import Job
from littoral.learning.task import Task
from littoral.planning.plan import Plan, Prediction, Term
from littoral.result import Tally
from littoral.run import open_session
from littoral.supervisor import Supervisor
from littoral.units import show_duration

ROUNDS = 48  # steps of every worker, at least
PERIODS = 3  # and so many periods, where a strategy exchanges something once per period
MOST_EVENTS = 20_000  # a rehearsal that gets so far goes on from what it has


class Forgetful:
    """Keeps no checkpoints."""

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Forget it."""

    def load(self) -> None:
        """There is none."""


@dataclass
class _Pace:
    """How a worker got on: samples used, when it had a third of them, and when it used its last."""

    used: int = 0
    early: tuple[int, float] = (0, 0.0)
    last_s: float = 0.0

    def take(self, event: Used, third: float) -> None:
        self.used += event.samples
        self.last_s = event.t
        if self.early == (0, 0.0) and self.used >= third:
            self.early = (self.used, event.t)

    def finish_s(self, samples: int) -> float:
        """When it will have used so many."""
        done, since = self.early
        if self.used <= done or self.used >= samples:
            return self.last_s * max(1.0, samples / max(1, self.used))
        return self.last_s + (samples - self.used) * (self.last_s - since) / (self.used - done)


def rehearse(job: Job, task: Task, plan: Plan) -> Plan:
    """The plan, with a prediction of what happened in its rehearsal."""
    quiet = replace(job, faults=(), accuracy=None, evaluate_every=1e9, profile=None)
    session = open_session(quiet, task, plan, Forgetful(), seed=job.seed, timing_only=True)
    supervisor = Supervisor(plan)
    tally = Tally(quiet, plan, task.footprint(), job.seed)
    rounds = max(ROUNDS, PERIODS * int(plan.parameters.get("period", 0) or _default(plan, "period")))
    enough = min(plan.epochs * plan.samples, rounds * sum(worker.batch for worker in plan.workers))
    paces = {worker.name: _Pace() for worker in plan.workers}
    thirds = {worker.name: rounds * worker.batch / 3 for worker in plan.workers}
    for number, event in enumerate(session.events()):
        tally.update(event)
        if isinstance(event, Used):
            paces[event.node].take(event, thirds[event.node])
        for command in supervisor.handle(event):
            session.perform(command)
        if tally.samples >= enough or number > MOST_EVENTS or isinstance(event, RunFinished):
            break
    return replace(plan, predicted=_prediction(job, plan, tally, paces))


def _default(plan: Plan, name: str) -> int:
    from littoral.strategies.strategy import make_strategy

    return int(getattr(make_strategy(plan.strategy, plan.parameters), name, 0))


def _prediction(job: Job, plan: Plan, tally: Tally, paces: dict[str, _Pace]) -> Prediction:
    before, whole = plan.predicted, plan.epochs * plan.samples
    shards = {worker.name: plan.epochs * worker.shard for worker in plan.workers}
    ends = {name: pace.finish_s(shards[name]) for name, pace in paces.items()}
    last = max(ends, key=ends.__getitem__)
    time_s, more = ends[last], whole / max(1, tally.samples)
    startup = before.terms[0].seconds
    exchange = max(0.0, time_s - before.time_s)
    terms = (
        *before.terms,
        Term(name="exchange", seconds=exchange, formula=f"messages and waiting of {last}, the last to finish, "
             f"from a rehearsal of {show_duration(tally.now)}"),
    )  # fmt: skip
    rent = time_s * sum(job.continuum.device(d).price_usd_per_s for d in set(plan.device_of.values()))
    return Prediction(
        time_s=before.time_s + exchange, epoch_s=max(0.0, time_s - startup) / plan.epochs,
        bytes_sent=more * tally.bytes_sent, wan_bytes=more * tally.wan_bytes,
        cost_usd=rent + more * tally.transfer_usd, terms=terms,
    )  # fmt: skip
