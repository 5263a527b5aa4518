"""A job without the devices that cannot take part: those whose heartbeat stopped, and those with three strikes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from littoral.errors import InputError
from littoral.job import Job
from littoral.planning.plan import Plan
from littoral.planning.planner import eligible

_STRUCK = "has three strikes"


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """Who is not to be planned with: ``lost`` with the reason, ``struck`` in jobs that count strikes."""

    lost: dict[str, str] = {}
    struck: tuple[str, ...] = ()


def without(job: Job, absent: Absent) -> Job:
    """The job among those who are present; refused if nobody is left to work, or to serve."""
    wanted, gone = eligible(job), _gone(job, absent)
    if not gone:
        return job
    workers = tuple(name for name in wanted if name not in gone)
    servers = tuple(name for name in job.servers or job.continuum.device_names if name not in absent.lost)
    if not workers:
        raise _nobody("work", wanted, gone)
    if not servers:
        raise _nobody("serve", job.servers, gone)
    return replace(job, workers=workers, servers=servers)


def check_plan(plan: Plan, absent: Absent) -> None:
    """Refuse a plan that needs somebody who is lost; whoever has strikes is left out by the run itself."""
    needed = [device for device in plan.device_of.values() if device in absent.lost]
    if needed:
        raise _nobody("follow the plan", needed, absent.lost)


def _gone(job: Job, absent: Absent) -> dict[str, str]:
    gone = {name: reason for name, reason in absent.lost.items() if name in job.continuum.device_names}
    struck = dict.fromkeys(absent.struck, _STRUCK) if job.on_failure == "deepedge" else {}
    if all(name in struck for name in eligible(job) if name not in gone):
        return gone  # the run says so itself, and counts: after some runs they may try again
    return gone | {name: reason for name, reason in struck.items() if name in eligible(job)}


def _nobody(what: str, wanted: tuple[str, ...] | list[str], gone: Mapping[str, str]) -> InputError:
    shown = "; ".join(f"{name} {gone[name]}" for name in wanted[:3] if name in gone)
    more = f" and {len(wanted) - 3} more" if len(wanted) > 3 else ""
    remedy = "bring a device back, pardon it, or plan again among others"
    return InputError(f"nobody is left to {what}: {shown}{more}", remedy=remedy)
