"""Which share of this machine's cores each emulated device gets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device
from littoral.errors import InputError

SHARED_OUT = 0.9  # of the machine: the rest is for the router and for whoever started the lab
MOST_ASKED = 0.95


def cpu_quotas(continuum: Continuum, cores: float, asked: Mapping[str, float] | None = None) -> dict[str, float]:
    """Cores per device: what ``asked`` or the device's ``cpu`` says, the rest in proportion to speed."""
    given = {device.name: device.cpu for device in continuum.devices if device.cpu is not None} | dict(asked or {})
    left = [device for device in continuum.devices if device.name not in given]
    used = sum(given.values())
    if used > MOST_ASKED * cores:
        found = f"the devices ask for {used:g} cores, and of this machine's {cores:g} the lab can give {MOST_ASKED:.0%}"
        raise InputError(found, remedy="lower 'cpu', in the same proportion for all")
    if left and used >= SHARED_OUT * cores:
        found = f"the devices with 'cpu' take {used:g} of {cores:g} cores and leave nothing for {left[0].name!r}"
        raise InputError(found, remedy="give every device its 'cpu', or lower the others'")
    speeds = _speeds(left)
    share = (SHARED_OUT * cores - used) / sum(speeds.values()) if speeds else 0.0
    return {name: given[name] if name in given else share * speeds[name] for name in continuum.device_names}


def own_cores(quotas: Mapping[str, float], cores: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Whole cores for each device, as many as its quota needs: its own, if one is left over for the router.

    Where there are too few, the smaller ones share: half a core that may run on two of them at once is no half core.

    >>> own_cores({"a": 0.5, "b": 1.5}, range(4))
    {'a': (0,), 'b': (1, 2)}
    >>> own_cores({"a": 0.4, "b": 1.0, "c": 0.5}, range(2))
    {'a': (1,), 'b': (0,), 'c': (1,)}
    """
    needed = {device: math.ceil(quota) for device, quota in quotas.items()}
    if sum(needed.values()) < len(cores):
        free = iter(cores)
        return {device: tuple(next(free) for _ in range(count)) for device, count in needed.items()}
    given: dict[str, tuple[int, ...]] = dict.fromkeys(quotas, ())
    loads = dict.fromkeys(cores, 0.0)
    for device in sorted(quotas, key=lambda name: -quotas[name]):
        least = sorted(loads, key=lambda core: loads[core])[: needed[device]]
        given[device] = tuple(sorted(least))
        for core in least:
            loads[core] += quotas[device] / needed[device]
    if max(loads.values()) > 1 + 1e-9:
        found = f"the devices do not fit on whole cores, of which there are {len(cores)}"
        raise InputError(found, remedy="let them run on any: leave out --pin")
    return given


def _speeds(devices: list[Device]) -> dict[str, float]:
    """Relative speeds; a step time in seconds and one in FLOP/s cannot be compared without a task."""
    timed = {device.name: 1.0 / s for device in devices if (s := device.step.seconds_per_sample) is not None}
    rated = {device.name: device.step.flops for device in devices if device.step.seconds_per_sample is None}
    if timed and rated:
        found = f"{next(iter(timed))!r} has a step time and {next(iter(rated))!r} a speed: the lab cannot compare them"
        raise InputError(found, remedy="give each device its 'cpu', such as 'cpu: 0.4'")
    return timed or rated
