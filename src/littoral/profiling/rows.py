"""What a sweep measures, as plain rows: one kind for training, one for apps.

A stress *point* is one setting of the stressors; all rows measured under it carry its number, so that estimators can
be tested on points they have never seen.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How busy a device is. Shares are of what it has, 0 to 1: inside a quota, 1 is the quota.

    ``pressure`` is the share of time in which somebody waits for the processor (held back by the quota, or runnable and
    not running), ``stalled`` the same for memory; ``load`` counts runnable threads per core of the device.
    """

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0
    gpu_memory: float = 0.0
    pressure: float = 0.0
    stalled: float = 0.0
    load: float = 0.0
    disk_bytes_per_s: float = 0.0
    network_bytes_per_s: float = 0.0
    memory_bytes_per_s: float = 0.0  # of memory bandwidth, where stressors or counters tell
    celsius: float | None = None
    pace: float | None = None  # microseconds of processor time for a fixed piece of work, where somebody times it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One window of training on a device: batch, company and state before; times and state during."""

    point: int
    device: str
    kind: str
    task: str
    batch: int
    workers: int  # that train at once, this one included
    batch_sum: int  # of all of them
    batch_max: int
    before: State  # means under stress and apps, without training
    server: State  # of the parameter server's device, before
    compute_s: float  # seconds per sample
    update_s: float  # seconds per batch: push, update, pull
    during: State  # 95th percentiles over the window, start-up excluded
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRow:
    """One window of an app on a device under stress."""

    point: int
    device: str
    kind: str
    app: str
    beside: int  # the batch of the training beside it; 0: none
    state: State  # means under stress and apps, without training
    mean_s: float  # of its periods' latencies
    tail_s: float  # their 95th percentile
    deadline_s: float  # of each, as the job had it
    periods: int
