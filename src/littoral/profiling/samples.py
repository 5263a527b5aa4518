"""What happened between two readings of a device, and what many of such samples amount to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from littoral.profiling.readings import Reading
from littoral.profiling.rows import State

_SHARES = ("cpu", "memory", "gpu", "gpu_memory", "load", "disk_bytes_per_s", "network_bytes_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A device between two readings; None where a counter is missing or was reset."""

    at: float  # the end
    seconds: float
    cpu: float | None
    waiting: float | None  # for the processor, from the quota's and the threads' own counters
    queued: float | None  # the same, as the kernel's pressure file has it
    stalled: float | None
    load: float | None
    disk_bytes_per_s: float | None
    network_bytes_per_s: float | None
    memory: float | None
    gpu: float
    gpu_memory: float
    celsius: float | None


def between(before: Reading, after: Reading) -> Sample:
    """What happened from one reading to the next."""
    seconds = after.at - before.at

    def rate(name: str) -> float | None:
        old, new = getattr(before, name), getattr(after, name)
        return None if old is None or new is None or new < old or seconds <= 0 else (new - old) / seconds

    cores, busy, waited = after.cores, rate("cpu_s"), rate("waited_s")
    runnable = after.runnable if busy is None or waited is None else busy + waited
    return Sample(
        at=after.at,
        seconds=seconds,
        cpu=_share(None if busy is None else busy / cores),
        waiting=_share(max((share for share in (rate("held_s"), waited) if share is not None), default=None)),
        queued=_share(rate("queued_s")),
        stalled=_share(rate("stalled_s")),
        load=None if runnable is None else runnable / cores,
        disk_bytes_per_s=rate("disk_bytes"),
        network_bytes_per_s=rate("network_bytes"),
        memory=_share(after.memory),
        gpu=after.gpu,
        gpu_memory=after.gpu_memory,
        celsius=after.celsius,
    )


def _share(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, value))


def quantile_of(values: Iterable[float | None], quantile: float) -> float:
    """Of those that are known, between neighbours in proportion; zero if none is known.

    >>> quantile_of([3.0, None, 1.0, 2.0], 0.75)
    2.5
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return 0.0
    low, part = divmod(quantile * (len(known) - 1), 1)
    high = min(int(low) + 1, len(known) - 1)
    return known[int(low)] + part * (known[high] - known[int(low)])


def mean_of(values: Iterable[tuple[float, float | None]]) -> float:
    """Of those that are known, each with its weight; zero if none is known.

    >>> mean_of([(1.0, 2.0), (3.0, 6.0), (9.0, None)])
    5.0
    """
    known = [(weight, value) for weight, value in values if value is not None]
    total = math.fsum(weight for weight, _ in known)
    return math.fsum(weight * value for weight, value in known) / total if known else 0.0


def summarise(samples: Iterable[Sample], quantile: float | None) -> State:
    """The state in which a device was: the quantile of each metric on its own, None for means.

    The kernel's pressure files may be brought up to date only every two seconds, so these are always means.
    """
    seen = list(samples)

    def over(name: str, quantile: float | None = quantile) -> float:
        values = [getattr(sample, name) for sample in seen]
        if quantile is None:
            return mean_of(zip((sample.seconds for sample in seen), values, strict=True))
        return quantile_of(values, quantile)

    told = any(sample.waiting is not None for sample in seen)
    return State(
        **{name: over(name) for name in _SHARES},
        pressure=over("waiting") if told else over("queued", None),
        stalled=over("stalled", None),
        celsius=over("celsius") if any(sample.celsius is not None for sample in seen) else None,
    )
