"""Different ways to the same mathematics must give the same model."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from littoral.learning.learner import Learner, Shards, named_seed
from littoral.learning.leases import Span
from littoral.learning.partition import partition
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.testing import Story, simulate, small_continuum, small_job


def model_of(story: Story) -> torch.Tensor:
    session = story.session
    sources = session.strategy.sources(session.plan, session.members, session.books._mathematics.length)
    return torch.cat([session.nodes[source.node].model.vector for source in sources])


def test_one_worker_is_plain_sgd() -> None:
    job = small_job(workers=1, strategy="allreduce")
    story = simulate(job, seed=3)
    task = load_task(job.task, job.task_options)
    dataset = task.data()
    count = len(dataset.train_x)
    indices = partition(dataset.train_y.numpy(), [count], "iid", named_seed(3, "shards"))[0]
    learner = Learner(task, Shards(dataset, {"w-1": indices}, 3), named_seed(3, "model") % 2**63)
    optimizer = torch.optim.SGD(learner.replica.model.parameters(), lr=task.recipe.lr)
    shards = Shards(dataset, {"w-1": indices}, 3)
    for epoch in range(job.epochs):
        for start in range(0, count, 8):
            optimizer.zero_grad()
            x, y = shards.batch([Span(epoch, "w-1", start, min(start + 8, count))])
            task.loss(learner.replica.model(x), y).backward()
            optimizer.step()
    torch.testing.assert_close(model_of(story), learner.vector, atol=1e-5, rtol=0)


@pytest.mark.parametrize("speeds", [(100.0, 100.0), (100.0, 50.0, 25.0)])
def test_allreduce_is_one_worker_with_the_concatenated_batch(speeds: tuple[float, ...]) -> None:
    job = small_job(strategy="allreduce", continuum=small_continuum(speeds), epochs=1)
    story = simulate(job)
    task = load_task(job.task, job.task_options)
    dataset = task.data()
    plan = story.plan
    sizes = [worker.shard for worker in plan.workers]
    cuts = partition(dataset.train_y.numpy(), sizes, "iid", named_seed(0, "shards"))
    shards = Shards(dataset, {w.name: cut for w, cut in zip(plan.workers, cuts, strict=True)}, 0)
    learner = Learner(task, shards, named_seed(0, "model") % 2**63)
    steps = max(-(-worker.shard // worker.batch) for worker in plan.workers)
    for step in range(steps):
        spans = [
            Span(0, worker.name, step * worker.batch, min((step + 1) * worker.batch, worker.shard))
            for worker in plan.workers
            if step * worker.batch < worker.shard
        ]
        gradient, _ = learner.gradient(spans)  # one batch made of everybody's
        learner.step(gradient, sum(len(span) for span in spans))
    torch.testing.assert_close(model_of(story), learner.vector, atol=1e-5, rtol=0)


def run_server(mode: str, **settings: object) -> Story:
    job = small_job(strategy="parameter_server", mode=mode, **settings)
    return simulate(job)


def test_bsp_server_is_allreduce() -> None:
    server = run_server("bsp")
    job = small_job(strategy="allreduce")
    plan = dataclasses.replace(server.plan, strategy="allreduce", parameters={}, servers=())
    ring = simulate(job, plan=plan)
    torch.testing.assert_close(model_of(server), model_of(ring), atol=1e-6, rtol=0)


def test_ssp_with_bound_zero_is_bsp() -> None:
    assert torch.equal(model_of(run_server("bsp")), model_of(run_server("ssp", bound=0)))


def test_ssp_with_a_huge_bound_is_asp() -> None:
    free = run_server("asp")
    plan = dataclasses.replace(free.plan, parameters={"mode": "ssp", "bound": 10**6})
    bounded = simulate(small_job(strategy="parameter_server", mode="ssp", bound=10**6), plan=plan)
    assert torch.equal(model_of(free), model_of(bounded))


@pytest.mark.parametrize("mode", ["bsp", "asp"])
def test_several_servers_hold_the_same_model_as_one(mode: str) -> None:
    one, three = run_server(mode), run_server(mode, servers=3)
    if mode == "bsp":
        torch.testing.assert_close(model_of(one), model_of(three), atol=1e-6, rtol=0)
    assert len(three.plan.servers) == 3
    assert sum(s.stop - s.start for s in three.plan.servers) == len(model_of(one))
    assert three.contradictions() == []


def test_backups_zero_is_bsp_and_backups_drop_the_slowest() -> None:
    assert torch.equal(model_of(run_server("bsp")), model_of(run_server("bsp", backups=0)))
    job = small_job(strategy="parameter_server", planner="fair", mode="bsp", backups=1)
    story = simulate(job)
    assert story.contradictions() == []
    assert story.reason == "epochs"


def test_unequal_batches_weigh_by_samples() -> None:
    """A worker with twice the samples counts twice: the mean is that of the concatenated batch."""
    task = load_task(small_job().task, small_job().task_options)
    dataset = task.data()
    shards = Shards(dataset, {"a": range(240)}, 0)
    learner = Learner(task, shards, 1)
    small, _ = learner.gradient([Span(0, "a", 0, 4)])
    large, _ = learner.gradient([Span(0, "a", 4, 16)])
    together, _ = learner.gradient([Span(0, "a", 0, 16)])
    torch.testing.assert_close(learner.mean([(small, 4), (large, 12)]), together, atol=1e-6, rtol=1e-4)


def test_plans_are_made_for_every_planner() -> None:
    job = small_job()
    task = load_task(job.task, job.task_options)
    fair = make_plan(dataclasses.replace(job, planner="fair"), task.footprint(), task.recipe)
    assert len({worker.shard for worker in fair.workers}) == 1
