"""Which devices are learned from together."""

from __future__ import annotations

from collections.abc import Sequence

from littoral.job import Job


def kinds_of(job: Job, devices: Sequence[str]) -> dict[str, str]:
    """Devices of one kind are measured as one; those of no kind as themselves, without their number."""
    described = {name: job.continuum.device(name) for name in devices}
    return {name: d.kind if d.kind != "custom" else _family(name) for name, d in described.items()}


def _family(name: str) -> str:
    stem, _, number = name.rpartition("-")
    return stem if number.isdigit() and stem else name
