"""What a process computes with: a worker's learner, a server's slice, a store's data; all from the boot record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import torch

from littoral.events import Event, Fetched
from littoral.learning.cutting import samples_per_block
from littoral.learning.learner import Holder, Learner, Shards, named_seed
from littoral.learning.mathematics import shard_indices
from littoral.learning.replica import Replica
from littoral.learning.task import Task, load_task
from littoral.strategies.strategy import Strategy
from littoral.worlds.node import Message
from littoral.worlds.processes.boot import Boot
from littoral.worlds.processes.pantry import Pantry, edition
from littoral.worlds.processes.store import StoreDesk

Send = Callable[[str, Message], Awaitable[None]]


def build(
    boot: Boot, strategy: Strategy, send: Send, report: Callable[[Event], None], clock: Callable[[], float]
) -> tuple[Any, Pantry | None]:
    """A worker's or server's model, and where its samples come from if not from its own disk."""
    torch.set_num_threads(boot.threads)
    task = load_task(boot.task, boot.task_options, boot.recipe)
    recipe = strategy.tune(task.recipe, len(boot.plan.workers))
    seed = _model_seed(boot)
    for server in boot.plan.servers:
        if server.name == boot.node:
            initial = Replica(task, seed)
            part = initial.vector[server.start : server.stop].clone()
            return Holder(part, recipe, initial.trained - server.start), None
    card = None if boot.card is None else f"cuda:{boot.card}"
    store = boot.plan.worker(boot.node).store
    if store is None:
        dataset = task.data()
        shards = Shards(dataset, shard_indices(boot.plan, boot.seed, dataset), boot.seed)
        return Learner(task, shards, seed, recipe, card), None

    def fetched(size: int, start: float) -> None:
        report(Fetched(clock(), boot.node, size, start))

    pantry = Pantry(
        Path(boot.pantry) if boot.pantry else None, {each.name: each.shard for each in boot.plan.workers}, send, store,
        seed=boot.seed,
        per_block=_per_block(task), edition=edition(boot.task, boot.task_options, boot.plan, boot.seed),
        clock=clock, fetched=fetched,
    )  # fmt: skip
    return Learner(task, pantry, seed, recipe, card), pantry


def store_desk(boot: Boot, send: Send) -> StoreDesk:
    """A store's counter: it can serve every shard, since work may move to workers of another store."""
    task = load_task(boot.task, boot.task_options, boot.recipe)
    dataset = task.data()
    initial = Replica(task, _model_seed(boot)).vector
    return StoreDesk(dataset, shard_indices(boot.plan, boot.seed, dataset), initial, send)


def _model_seed(boot: Boot) -> int:
    return named_seed(boot.seed, "model") % 2**63


def _per_block(task: Task) -> int:
    return samples_per_block(task.footprint().sample_bytes)
