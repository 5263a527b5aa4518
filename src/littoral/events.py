"""What happened in a run, as values. Worlds emit them, the supervisor reads them, the journal keeps them.

Every event carries ``t``, the world's clock in seconds; none carries wall time, so the journal of a simulated run
is a pure function of its inputs.
"""

from __future__ import annotations

from typing import Any

import msgspec

SpanRow = tuple[int, str, int, int]  # epoch, origin, start, stop


class Event(msgspec.Struct, frozen=True, tag=True, tag_field="event"):
    """Something that happened at ``t``."""

    t: float


class RunStarted(Event, frozen=True, tag=True):
    """The first line of a journal: all that is needed to repeat the run."""

    run: str
    world: str
    seed: int
    timing_only: bool
    job: dict[str, Any]
    continuum: dict[str, Any]
    plan: dict[str, Any]


class Resumed(Event, frozen=True, tag=True):
    """The run goes on from a checkpoint taken at ``since``: samples used after that time count as never used."""

    since: float
    samples: int


class NodeStarted(Event, frozen=True, tag=True):
    """A node's program began."""

    node: str


class NodeFinished(Event, frozen=True, tag=True):
    """A node's program has no work left."""

    node: str


class NodeLost(Event, frozen=True, tag=True):
    """A node was found gone (crashed, cut off)."""

    node: str
    reason: str


class NodeReturned(Event, frozen=True, tag=True):
    """A node that was lost is back and asks to join."""

    node: str


class OutOfMemory(Event, frozen=True, tag=True):
    """A batch did not fit; ``limit`` is the largest that does."""

    node: str
    batch: int
    limit: int


class FaultInjected(Event, frozen=True, tag=True):
    """A fault of the job file took effect."""

    kind: str
    target: str
    seconds: float | None  # None: for good
    factor: float


class Fetched(Event, frozen=True, tag=True):
    """A node got data or a model from a store before it could work."""

    node: str
    size: int
    start: float


class Computed(Event, frozen=True, tag=True):
    """A node computed a gradient between ``start`` and ``t``."""

    node: str
    start: float
    samples: int
    epoch: int
    loss: float | None


class Sent(Event, frozen=True, tag=True):
    """A message of ``size`` bytes left at ``start`` and arrived at ``t``."""

    source: str
    target: str
    message: str
    size: int
    start: float
    wide_area: bool


class Used(Event, frozen=True, tag=True):
    """Samples whose gradient became part of the model; each exactly once per epoch."""

    node: str
    samples: int
    spans: tuple[SpanRow, ...]


class EpochFinished(Event, frozen=True, tag=True):
    """Every sample of an epoch was used; ``left`` samples remain in the other epochs."""

    epoch: int
    left: int


class Evaluated(Event, frozen=True, tag=True):
    """The model's accuracy on data it has not seen, after ``samples`` samples."""

    samples: int
    accuracy: float
    loss: float


class Checkpointed(Event, frozen=True, tag=True):
    """The run can be resumed from here."""

    samples: int


class Refused(Event, frozen=True, tag=True):
    """Frames or connections that a node's gate turned away: ``count`` of them since the last word about this."""

    node: str
    peer: str
    reason: str
    count: int


class DeadlineMissed(Event, frozen=True, tag=True):
    """A background app was late, or dropped a period because the one before still ran (``latency_s`` None)."""

    app: str
    node: str
    latency_s: float | None


class AppChecked(Event, frozen=True, tag=True):
    """How an app did on one device over the whole run."""

    app: str
    node: str
    checked: int
    violated: int
    mean_s: float
    worst_s: float


class RunFinished(Event, frozen=True, tag=True):
    """The last line of a journal."""

    reason: str


AnyEvent = (
    RunStarted | Resumed | NodeStarted | NodeFinished | NodeLost | NodeReturned | OutOfMemory | FaultInjected
    | Fetched | Computed | Sent | Used | EpochFinished | Evaluated | Checkpointed | Refused | DeadlineMissed
    | AppChecked | RunFinished
)  # fmt: skip
