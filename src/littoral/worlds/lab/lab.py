"""The lab: a continuum emulated on this machine, one network namespace and one CPU quota per device.

with Lab.up(continuum) as lab:
    start(process, lab.place("nano-1"))          # which calls places.enter first of all
    lab.start_clock()                            # traces begin
    lab.scale("plant->region", 0.0)              # a cut
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from littoral.continuum.continuum import Continuum
from littoral.document import suggest
from littoral.errors import InputError
from littoral.worlds.lab import cgroups, check, netlink, register, spaces
from littoral.worlds.lab.awake import awake
from littoral.worlds.lab.check import Measured
from littoral.worlds.lab.follower import Follower
from littoral.worlds.lab.hosts import connect
from littoral.worlds.lab.leaving import up_and_leave
from littoral.worlds.lab.parts import LabUnavailable, missing_parts
from littoral.worlds.lab.places import Place, enter
from littoral.worlds.lab.quotas import cpu_quotas, own_cores
from littoral.worlds.lab.register import Record, leftovers, take_down
from littoral.worlds.lab.router import Router, RouterFailed
from littoral.worlds.lab.wiring import COORDINATOR, Wiring

__all__ = [
    "Lab",
    "LabUnavailable",
    "Measured",
    "Place",
    "check_lab",
    "enter",
    "leftovers",
    "missing_parts",
    "take_down",
    "up_and_leave",
]


class Lab:
    """A running lab. End it with ``down``; what a killed owner leaves is found by ``take_down``."""

    def __init__(
        self, wiring: Wiring, record: Record, quotas: Mapping[str, float], cores: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.continuum, self.name = wiring.continuum, record.name
        self.wiring, self.quotas, self._cores = wiring, dict(quotas), cores
        self._record = record
        self._places: dict[str, Place] = {}
        self._factors: dict[str, float] = {}
        self._speeds: dict[str, float] = {}
        self._router: Router | None = None
        self._follower: Follower | None = None
        self._stack = ExitStack()

    @classmethod
    def up(
        cls,
        continuum: Continuum,
        *,
        cpu: Mapping[str, float] | None = None,
        seed: int = 0,
        kept: bool = False,
        python_router: bool = False,
        pin: bool = False,
    ) -> Lab:
        """Bring a continuum to life on this machine.

        ``cpu`` overrides the devices' cores; ``seed`` is that of packet losses; ``kept`` marks a lab that ``lab down``
        may remove although its owner lives; any other keeps this machine's cores awake. ``pin`` keeps every device to
        whole cores, of those this process may use and its own if there are enough, so that it measures the same again.
        Raises LabUnavailable where a part is missing.
        """
        if missing := missing_parts():
            raise LabUnavailable(missing)
        cores = sorted(os.sched_getaffinity(0))
        quotas = cpu_quotas(continuum, len(cores), cpu)
        owned = own_cores(quotas, cores) if pin else {}
        wiring = Wiring(continuum, home=continuum.device_names[0])
        register.sweep_abandoned()
        record = register.claim(kept=kept)
        wiring.subnet = record.subnet
        lab = cls(wiring, record, quotas, owned)
        try:
            lab._build(seed, python_router)
            if not kept:
                lab._stack.enter_context(awake(cores))
        except (OSError, RouterFailed) as error:
            lab.down()
            raise LabUnavailable([str(error)]) from error
        except BaseException:
            lab.down()
            raise
        return lab

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def place(self, device: str) -> Place:
        """Where a process of a device lives, or of a store: its device's place, or one of its own."""
        on = next((store.device for store in self.continuum.stores if store.name == device), None)
        device = on or device
        if device not in self._places:
            raise InputError(f"the lab has no place {device!r}", remedy=suggest(device, list(self._places)))
        return self._places[device]

    @property
    def coordinator(self) -> Place:
        """A place outside all namespaces that shares the ports of its home device."""
        return Place(self.wiring.address(COORDINATOR))

    def set_home(self, device: str) -> None:
        """Whose ports the coordinator shares (the first device's until told); between the two nothing is shaped."""
        self.place(device)
        self.wiring.move_home(device)
        self._running.reroute(self.wiring, COORDINATOR)
        netlink.set_up(self.name, gso_segments=self.wiring.segments(COORDINATOR))

    def start_clock(self) -> None:
        """From now on traces follow the time and devices carry their load; until now it was t = 0 and no load."""
        if self._follower is None:
            rates = [(pipe.capacity, partial(self._set_rate, name)) for name, pipe in self.wiring.pipes.items()]
            loads = [(device.load, partial(self._set_quota, device.name)) for device in self.continuum.devices]
            self._follower = Follower([*rates, *loads])
            for device in self.continuum.device_names:
                self._set_quota(device, 0.0)

    def scale(self, pipe: str, factor: float) -> None:
        """Multiply a pipe's rate from now on (0 cuts it: everything is dropped; 1 restores it)."""
        if pipe not in self.wiring.pipes:
            raise InputError(f"the lab has no pipe {pipe!r}", remedy=suggest(pipe, list(self.wiring.pipes)))
        self._factors[pipe] = factor
        self._set_rate(pipe, self._now)

    def set_speed(self, device: str, factor: float) -> None:
        """Multiply a device's CPU quota from now on."""
        if device not in self.quotas:
            raise InputError(f"the lab has no device {device!r}", remedy=suggest(device, list(self.quotas)))
        self._speeds[device] = factor
        self._set_quota(device, self._now)

    def stats(self) -> dict[str, Any]:
        """The router's processor seconds so far, and per pipe the bytes carried and packets dropped."""
        return self._running.stats()

    def down(self) -> None:
        """Remove the lab and end whatever still runs in it. May be called again."""
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._router is not None:
            self._router.close()
            self._router = None
        self._stack.close()
        register.sweep(self.name)

    # -- building ---------------------------------------------------------------------------------------------------

    def _build(self, seed: int, python_router: bool) -> None:
        for host in self.wiring.hosts:
            if host != COORDINATOR:
                self._places[host] = self._make_place(host)
        self._router = Router(self.name, in_python=python_router)
        owned = msgspec.structs.replace(self._record, router=register.process(self._router.pid), places=self._places)
        register.write(owned)
        namespaces = {host: place.netns for host, place in self._places.items()}
        self._router.configure(self.wiring, self.name, namespaces, seed)
        for host in self.wiring.hosts:
            spaces.inside(namespaces.get(host, ""), partial(connect, self.wiring, host, self.name))

    def _make_place(self, host: str) -> Place:
        safe = re.sub(r"[^\w.-]", "_", host)
        groups = cgroups.create(cgroups.find_controllers(), self.name, safe)
        if host in self.quotas:
            self._limit(host, groups)
        space = spaces.create(f"{self.name}-{safe}")
        return Place(self.wiring.address(host), space, groups, self._cores.get(host, ()))

    def _limit(self, device: str, groups: tuple[str, ...]) -> None:
        if not cgroups.can_limit_cpu(groups):
            raise LabUnavailable([f"the cpu controller cannot be switched on for {groups[0]}"])
        cgroups.limit_cpu(groups, self.quotas[device])
        memory = self.continuum.device(device).memory_bytes
        if memory < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            cgroups.limit_memory(groups, int(memory))

    # -- running ----------------------------------------------------------------------------------------------------

    @property
    def _running(self) -> Router:
        if self._router is None:
            raise RuntimeError(f"the lab {self.name} is down")
        return self._router

    @property
    def _now(self) -> float:
        return 0.0 if self._follower is None else self._follower.now

    def _set_rate(self, pipe: str, t: float) -> None:
        # A port without a limit of its own has infinite capacity, and infinity times nothing is no number.
        factor = self._factors.get(pipe, 1.0)
        self._running.set_rate(pipe, self.wiring.pipes[pipe].capacity.at(t) * factor if factor else 0.0)

    def _set_quota(self, device: str, t: float) -> None:
        free = 1.0 - self.continuum.device(device).load.at(t) if self._follower else 1.0
        cores = self.quotas[device] * self._speeds.get(device, 1.0) * free
        cgroups.limit_cpu(self._places[device].cgroups, cores)


def check_lab(continuum: Continuum, *, progress: Callable[[str], None] = lambda told: None) -> list[Measured]:
    """Bring a lab up, measure every link and device of it, take it down."""
    with Lab.up(continuum) as lab:
        return list(check.measure(lab, progress))
