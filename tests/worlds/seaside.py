"""What the tests of the simulated world share: strategies, two sites, the checkpoints of a run that was killed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.job import Job
from littoral.testing import MemoryKeeper, Story

MODES: list[tuple[str, dict[str, Any]]] = [
    ("allreduce", {}),
    ("parameter_server", {"mode": "asp"}),
    ("parameter_server", {"mode": "bsp"}),
    ("parameter_server", {"mode": "ssp", "bound": 2}),
    ("parameter_server", {"mode": "bsp", "backups": 1}),
]


def two_sites() -> Continuum:
    """Two workers and a hub at the edge, a worker in the cloud."""

    def device(name: str, site: str) -> Device:
        return Device(name=name, site=site, step=StepTime(seconds_per_sample=0.01), memory_bytes=1e9)

    lan, wan = Constant(1e6), Constant(1e5)
    return Continuum(
        name="two", sites=(Site(name="a"), Site(name="b", tier="cloud")),
        devices=(device("w-1", "a"), device("w-2", "a"), device("w-3", "b"), device("hub", "a")),
        links=(Link(a="a", b="a", forward=lan, backward=lan, latency_s=0.001),
               Link(a="a", b="b", forward=wan, backward=wan, latency_s=0.05)),
    )  # fmt: skip


def with_device(job: Job, name: str, **changes: Any) -> Job:
    """The same job, where one device is different."""
    devices = tuple(replace(d, **changes) if d.name == name else d for d in job.continuum.devices)
    return replace(job, continuum=replace(job.continuum, devices=devices))


def whole(story: Story) -> bool:
    """Whether the run did its work, each sample exactly once per epoch."""
    return story.reason == "epochs" and story.contradictions() == []


class KilledKeeper(MemoryKeeper):
    """The checkpoints that a process leaves behind which was killed after its first few."""

    def __init__(self, saves: int) -> None:
        super().__init__()
        self._left = saves

    def save(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Keep it, if it is one of the first."""
        if self._left:
            self._left -= 1
            super().save(tensors, metadata)
