"""What a run achieved, counted event by event: what a rollback takes back counts for nobody."""

from __future__ import annotations

from littoral.events import Checkpointed, Event, Resumed, Used
from littoral.job import Job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.result import Tally
from littoral.testing import fail_at, simulate, small_job


def counted(job: Job, events: list[Event]) -> Tally:
    task = load_task(job.task, job.task_options, job.recipe)
    tally = Tally(job, make_plan(job, task.footprint(), task.recipe), task.footprint(), seed=0)
    for event in events:
        tally.update(event)
    return tally


def samples(tally: Tally) -> dict[str, int]:
    return {name: worker["samples"] for name, worker in tally.result()["workers"].items()}


def used(node: str, count: int) -> Used:
    return Used(0.0, node, count, ())


def test_a_rollback_takes_back_each_workers_own() -> None:
    """By count, not by order: the checkpoint is told when somebody has gone on already."""
    before = [used("w-1", 10), used("w-2", 6), used("w-1", 3), Checkpointed(0.0, 16), used("w-2", 2)]
    job = small_job(workers=2)
    assert samples(counted(job, before)) == {"w-1": 13, "w-2": 8}
    assert samples(counted(job, [*before, Resumed(1.0, 0.0, 16)])) == {"w-1": 10, "w-2": 6}
    assert samples(counted(job, [*before, Resumed(1.0, 0.0, 16), used("w-2", 5)])) == {"w-1": 10, "w-2": 11}
    assert samples(counted(job, [used("w-1", 4), Resumed(1.0, 0.0, 0), used("w-1", 1)])) == {"w-1": 1, "w-2": 0}


def test_the_workers_samples_add_up_to_the_runs() -> None:
    """A server that is lost takes everybody back, twice."""
    faults = [fail_at("ps-1", 2.5, back_after_s=1.0), fail_at("ps-1", 9.0, back_after_s=1.0)]
    job = small_job(strategy="parameter_server", mode="asp", epochs=4, faults=faults)
    story = simulate(job, timing_only=True)
    assert len(story.of(Resumed)) == 2
    tally = counted(job, story.events)
    assert sum(samples(tally).values()) == tally.samples == 4 * 240
