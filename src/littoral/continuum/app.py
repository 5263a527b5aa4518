"""Background apps with deadlines, and data stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Latency-critical work that runs on devices beside training.

    Every ``period_s`` it needs ``work_s`` seconds of a free device, taking the share ``demand`` of it, and
    must be done within ``deadline_s``.
    """

    name: str
    on: tuple[str, ...]
    period_s: float
    deadline_s: float
    work_s: float
    demand: float = 0.5
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where training data lies before the job: on a device, or at a site behind its local network."""

    name: str
    site: str
    device: str | None = None
    samples: int = 0


def crowding(demands: Sequence[float]) -> float:
    """How much everyone on a device is slowed down: nobody while demands fit, all alike beyond.

    >>> crowding([1.0, 0.5])
    1.5
    """
    return max(1.0, sum(demands))


TRAINING_DEMAND = 1.0  # a training step takes all it can get
