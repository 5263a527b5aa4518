"""Where parameter servers may well be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from littoral.errors import Infeasible
from littoral.job import Job
from littoral.learning.task import Footprint
from littoral.planning.flows import last_arrival
from littoral.planning.paces import Setting
from littoral.planning.plan import Server
from littoral.units import show_bytes

PLACEMENTS = 6  # places for servers to try
SERVER_VECTORS = 4  # weights, gradient, optimiser and a message


def placements(
    job: Job, setting: Setting, devices: Sequence[str], footprint: Footprint, strategy: Any
) -> list[tuple[Server, ...]]:
    """Where servers may well be: where the workers' exchange ends soonest comes first."""
    candidates = job.servers or job.continuum.device_names
    if getattr(strategy, "per_site", False):
        return [_site_servers(job, setting, devices, footprint, candidates)]
    ranked = ranked_servers(job, setting, devices, footprint, strategy.servers)
    first = ranked[:PLACEMENTS] if len(devices) <= 64 else ranked[:1]
    return [cut_servers(footprint, strategy.servers, ranked[k:] + ranked[:k]) for k in range(len(first))]


def ranked_servers(job: Job, setting: Setting, devices: Sequence[str], footprint: Footprint, count: int) -> list[str]:
    """Devices with room for one of ``count`` servers, where the workers' exchange ends soonest first."""
    size, candidates = float(footprint.vector_bytes), job.servers or job.continuum.device_names

    def burden(device: str) -> tuple[float, int]:
        there = [setting.routes.between(d, device) for d in devices]
        back = [setting.routes.between(device, d) for d in devices]
        zeros = [0.0] * len(devices)
        seconds = last_arrival(zeros, there, size) + last_arrival(zeros, back, size)
        return seconds, job.continuum.device_names.index(device)

    slices = -(-size // count)
    roomy = [name for name in candidates if job.continuum.device(name).memory_bytes >= SERVER_VECTORS * slices]
    if not roomy:
        need = show_bytes(SERVER_VECTORS * slices)
        raise Infeasible(f"memory binds: no device that may serve has the {need} that a server needs")
    return sorted(roomy, key=burden)


def _site_servers(
    job: Job, setting: Setting, devices: Sequence[str], footprint: Footprint, candidates: Sequence[str]
) -> tuple[Server, ...]:
    """One server with the whole vector at each site that has workers: where its farthest worker reaches it soonest."""
    length, site_of = footprint.parameters + footprint.buffers, {d.name: d.site for d in job.continuum.devices}
    servers = []
    for number, site in enumerate(dict.fromkeys(site_of[device] for device in devices), start=1):
        workers = [device for device in devices if site_of[device] == site]
        here = [device for device in candidates if site_of[device] == site] or workers

        def slowest(device: str, workers: Sequence[str] = workers) -> float:
            ways = [setting.routes.between(worker, device) for worker in workers]
            return last_arrival([0.0] * len(ways), ways, float(footprint.vector_bytes))

        servers.append(Server(name=f"ps-{number}", device=min(here, key=slowest), start=0, stop=length, site=site))
    return tuple(servers)


def cut_servers(footprint: Footprint, count: int, devices: Sequence[str]) -> tuple[Server, ...]:
    """``count`` servers on the devices in turn, each with its slice of the vector."""
    length = footprint.parameters + footprint.buffers
    cuts = [round(i * length / count) for i in range(count + 1)]
    return tuple(
        Server(name=f"ps-{i + 1}", device=devices[i % len(devices)], start=cuts[i], stop=cuts[i + 1])
        for i in range(count)
    )
