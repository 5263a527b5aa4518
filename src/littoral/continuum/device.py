"""Sites and devices, and how long a training step takes on a device.

    step_seconds(batch) = fixed_seconds + seconds_per_sample * batch        (alone, unloaded)

The same formula serves planner and simulator; load, apps and jitter act on top of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from littoral.continuum.signal import Constant, Signal

TIERS = ["edge", "fog", "cloud"]
NO_LOAD = Constant(0.0)


class Workload(Protocol):
    """What a device must know of a task to time and fit it (``learning.task.Footprint`` has it)."""

    @property
    def flops_per_sample(self) -> float: ...
    @property
    def activation_bytes(self) -> int: ...
    @property
    def vector_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place whose devices share a local network."""

    name: str
    tier: str = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """An affine step time; ``seconds_per_sample`` None means: from the task's FLOPs and ``flops``."""

    fixed_seconds: float = 0.0
    seconds_per_sample: float | None = None
    flops: float = 0.0

    def per_sample(self, task: Workload) -> float:
        """Seconds for one more sample in the batch."""
        if self.seconds_per_sample is not None:
            return self.seconds_per_sample
        return task.flops_per_sample / self.flops

    def seconds(self, task: Workload, batch: float) -> float:
        """Seconds for a step of ``batch`` samples, alone on the device."""
        return self.fixed_seconds + self.per_sample(task) * batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """Device seconds that sending or receiving a message takes: encoding, encryption, system calls."""

    per_message_s: float
    per_byte_s: float

    def seconds(self, size: float, messages: int = 1) -> float:
        """For some messages of ``size`` bytes together."""
        return messages * self.per_message_s + size * self.per_byte_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A machine that can work, serve or store.

    ``uplink`` and ``downlink`` are its own port's rates (bytes/s); the site's network may be slower.
    ``load`` is the share of the device that others already use; ``jitter`` the relative spread of a step's
    time. ``cpu`` is how many cores an emulation gives it (None: a share in proportion to its speed); from two on, it
    trains with as many threads. ``card`` is the graphics card that real training there uses, ``card_share`` how much
    of it.
    """

    name: str
    site: str
    step: StepTime
    memory_bytes: float
    memory_bytes_per_s: float = 20e9
    uplink: Signal | None = None
    downlink: Signal | None = None
    price_usd_per_s: float = 0.0
    load: Signal = NO_LOAD
    jitter: float = 0.0
    kind: str = "custom"
    handling: Handling | None = None  # None: messages cost no time of the device itself
    cpu: float | None = None
    card: int | None = None
    card_share: float = 1.0

    def best_samples_per_s(self, task: Workload, batch: int) -> float:
        """The most it can do alone, with the largest batch that is sensible for it (no load, no network)."""
        return batch / self.step.seconds(task, batch)

    def largest_batch(self, task: Workload) -> int:
        """How many samples fit in memory beside four vectors: weights, gradient, optimiser, message."""
        left = self.memory_bytes - 4 * task.vector_bytes
        return max(0, int(left // max(1, task.activation_bytes)))
