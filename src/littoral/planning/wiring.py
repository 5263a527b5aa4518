"""Who talks to whom in a plan: the strategy's topology over the plan's workers, with the real links in mind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from littoral.continuum.link import HEADER_BYTES
from littoral.planning.flows import all_at_once
from littoral.planning.paces import Setting, step_seconds
from littoral.planning.plan import Server, Worker
from littoral.planning.topology import Topology, make_topology

UNLIMITED = 1e18  # bytes/s where nothing limits, as on one device: plans are JSON, which knows no infinity


def wire(setting: Setting, workers: Sequence[Worker], strategy: Any, seed: int) -> Topology | None:
    """The topology that a strategy asks for by its ``topology`` (and ``degree`` and ``weights``), if it does."""
    name = getattr(strategy, "topology", None)
    if name is None:
        return None
    device = {worker.name: worker.device for worker in workers}
    computing = max(step_seconds(setting, worker.device, worker.batch) for worker in workers)
    size = float(setting.width * setting.task.vector_bytes / 4 + HEADER_BYTES)

    def round_seconds(edges: Collection[tuple[str, str]]) -> float:
        """Models cross every link both ways, all at once, while everyone computes."""
        ways = [setting.routes.between(device[a], device[b]) for x, y in edges for a, b in ((x, y), (y, x))]
        if not ways:
            return computing
        return max(computing, all_at_once(ways, [size] * len(ways)) + max(way.latency_s for way in ways))

    topology = make_topology(
        name, [worker.name for worker in workers], degree=getattr(strategy, "degree", None), seed=seed,
        sites={worker.name: worker.site for worker in workers}, round_seconds=round_seconds,
        weights=getattr(strategy, "weights", "metropolis"), mixing=getattr(strategy, "mixing", "doubly"),
    )  # fmt: skip
    if hasattr(strategy, "check_topology"):
        strategy.check_topology(topology)
    return topology


def rates(setting: Setting, nodes: Sequence[Worker | Server], strategy: Any) -> dict[str, dict[str, float]]:
    """What each way between two nodes carries alone, for strategies that suit what they send to it (``by_rate``)."""
    if not getattr(strategy, "by_rate", False):
        return {}
    return {
        a.name: {b.name: min(setting.routes.between(a.device, b.device).rate(), UNLIMITED) for b in nodes if b is not a}
        for a in nodes
    }
