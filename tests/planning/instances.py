"""Random instances of the scheduling problem, and models made to be awkward."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from littoral.planning.instance import AffinePerformance, Array, Floats, Instance, Ints, Placement


def affine(forward: list[float], **changes: Any) -> AffinePerformance:
    """Nodes that differ in speed only; no memory limit, no apps, a free server."""
    n = len(forward)
    plain = AffinePerformance(
        forward_s=np.array(forward), backward_s=np.zeros(n), load=np.ones(n), reach_s=np.zeros((1, n)),
        memory=np.full(n, 1e6), alone_s=np.zeros((n, 0)), slope_s=np.zeros((n, 0)),
    )  # fmt: skip
    return replace(plain, **changes)


def plain(forward: list[float], samples: int, **changes: Any) -> Instance:
    """An instance of such nodes; ``changes`` are the instance's, or the performance's under ``model``."""
    names = tuple(f"w-{i}" for i in range(len(forward)))
    model = affine(forward, **changes.pop("model", {}))
    return Instance(**{"names": names, "samples": samples, "performance": model, **changes})


def random_instance(
    seed: int, n: int | None = None, *, samples: int | None = None, ladder: tuple[int, ...] = (2, 4, 8, 16, 32),
    apps: int = 1, placements: int = 2, tight: float = 0.15,
) -> Instance:  # fmt: skip
    """Nodes 1 to 10 times slower than the best, two stores, start-ups, crowding servers, some tight deadlines."""
    dice = np.random.default_rng(seed)
    n = int(dice.integers(2, 9)) if n is None else n
    samples = int(10 ** dice.uniform(1.5, 3.6)) if samples is None else samples
    speed = dice.uniform(0.5, 2.0, n) * dice.choice([1.0, 1.0, 2.0], n)
    pace = 0.02 * speed
    alone = np.where(dice.random((n, apps)) < 0.8, dice.uniform(0.05, 0.15, (n, apps)), np.nan)
    servers = placements + 1
    performance = AffinePerformance(
        forward_s=pace, backward_s=pace * dice.uniform(1, 8, n), load=dice.uniform(1, 3, n),
        reach_s=dice.uniform(0.02, 0.5, (servers, n)), worker_s=float(dice.choice([0.0, 0.01, 0.05, 0.2])),
        sample_s=float(dice.choice([0.0, 0.0005, 0.002, 0.01, 0.03])), push_s=float(dice.choice([0.0, 0.05, 0.5])),
        memory=dice.choice([10.0, 20.0, 40.0, 80.0], n), model_bytes=2.0, activation_bytes=1.0,
        alone_s=alone, slope_s=dice.uniform(0, 0.004, (n, apps)),
    )  # fmt: skip
    deadlines = np.where(dice.random((n, apps)) < tight, 0.1, 0.2)
    deadlines[0] = np.inf  # somebody can always work
    return Instance(
        names=tuple(f"w-{i}" for i in range(n)), samples=samples, epochs=int(dice.integers(1, 6)),
        batch_least=min(ladder), batch_most=max(ladder), ladder=ladder, apps=tuple(f"app-{a}" for a in range(apps)),
        deadlines=deadlines, start_s=dice.uniform(0, 10, n) * float(dice.choice([0.0, 1.0])),
        transfer_s_per_sample=dice.uniform(0, 0.01, (2, n)), server_choices=_placements(servers, placements),
        usd_per_s=dice.uniform(0.0001, 0.001, n), usd_per_sample=dice.uniform(0, 1e-5, (2, n)),
        server_usd_per_s=np.array(0.0005), performance=performance,
    )  # fmt: skip


def _placements(servers: int, count: int) -> tuple[Placement, ...]:
    return tuple(tuple(range(k % servers, servers)) if k % 2 else (k % servers,) for k in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Oscillating:
    """Node 0 is quick with batches up to 8 and slow beyond: more samples, larger batch, fewer samples, and so on.

    With 21 samples beside a node of 0.5 s per sample it gets 7 (slow) and 15 (quick) in turn. The last node is slowest.
    """

    nodes: int

    def compute_seconds(self, nodes: Ints, batches: Array) -> Floats:
        swinging = np.where(np.asarray(batches) > 8, 1.0, 0.2)
        return np.where(nodes == 0, swinging, np.where(nodes == self.nodes - 1, 50.0, 0.5))

    def update_seconds(self, nodes: Ints, batches: Array, servers: Placement) -> Floats:
        return np.zeros(np.shape(batches))

    def largest_batch(self, nodes: Ints) -> Ints:
        return np.full(len(nodes), 64)

    def latencies(self, nodes: Ints, batches: Array) -> Floats:
        return np.zeros((len(nodes), 0))
