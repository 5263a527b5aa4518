"""Faults in virtual time: what the job file says shall go wrong, goes wrong, and is noticed as in real life."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from littoral.events import FaultInjected
from littoral.job import COORDINATOR, Fault

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session

RESTART_S = 2.0  # a new process imports its libraries


class Faults:
    """Injects the faults of a job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._outages = session.outages
        self._active: dict[str, list[float]] = defaultdict(list)  # by how much faults slow what at present

    def start(self) -> None:
        """Put every fault on the clock; after a resumption, what began earlier and still lasts takes effect now."""
        now = self._session.kernel.now
        for fault in self._session.job.faults:
            left = fault.at_s + self._lasts_s(fault) - now
            if not self._applies(fault):
                continue
            if fault.at_s >= now:
                self._session.kernel.call_at(fault.at_s, self._inject, fault)
            elif left > 0 and fault.kind != "restart":
                self._session.kernel.call_soon(self._take_effect, replace(fault, at_s=now, seconds=left))

    def _applies(self, fault: Fault) -> bool:
        session, out = self._session, self._outages
        known = fault.node in session.machines or bool(out.nodes_of(fault.node) or out.stores_of(fault.node))
        return not fault.node or known or self._hits_coordinator(fault)

    def _hits_coordinator(self, fault: Fault) -> bool:
        return fault.node == COORDINATOR and COORDINATOR not in self._session.machines

    def _inject(self, fault: Fault) -> None:
        session = self._session
        seconds = fault.seconds if math.isfinite(fault.seconds) else None
        session.emit(FaultInjected(session.kernel.now, fault.kind, fault.target, seconds, fault.factor))
        self._take_effect(fault)

    def _take_effect(self, fault: Fault) -> None:
        seconds = self._lasts_s(fault)
        match fault.kind:
            case "crash" | "pause" if self._hits_coordinator(fault):
                self._strike_coordinator(seconds, killed=fault.kind == "crash")
            case "crash":
                self._outages.crash(fault.node, seconds + RESTART_S)
            case "leave":
                self._outages.leave(fault.node, seconds)
            case "restart":
                self._session.later(RESTART_S, partial(self._outages.restart, fault.node))
            case "pause":
                self._pause(fault.node, seconds)
            case "slow-device":
                self._slow_device(fault.node, fault.factor, seconds)
            case "slow-link":
                self._scale(self._pipes(fault), fault.factor, seconds)
            case "partition":
                self._scale(self._pipes(fault), 0.0, seconds)
                self._outages.hold(self._cut_off(fault), seconds, "is cut off")

    def _lasts_s(self, fault: Fault) -> float:
        """A server's or the coordinator's process that dies is started again at once; the rest is as the fault says."""
        is_server = any(server.name == fault.node for server in self._session.plan.servers)
        relaunched = fault.kind == "crash" and (is_server or self._hits_coordinator(fault))
        return 0.0 if relaunched and math.isinf(fault.seconds) else fault.seconds

    def _strike_coordinator(self, seconds: float, *, killed: bool) -> None:
        """It has heard of everything that came before."""
        away_s = seconds + RESTART_S if killed else seconds
        self._session.afterwards(partial(self._session.coordinator.leave, away_s, killed=killed))

    # -- slower -------------------------------------------------------------------------------------------------

    def _pause(self, target: str, seconds: float) -> None:
        device = self._session.device_of.get(target, target)
        if device in self._session.machines:
            self._slow_device(device, 0.0, seconds)
            self._scale([f"{device}.up", f"{device}.down"], 0.0, seconds)
        self._outages.hold(self._outages.nodes_of(target), seconds, "does not answer")
        self._outages.hold_stores(self._outages.stores_of(target), seconds, "does not answer")

    def _slow_device(self, name: str, factor: float, seconds: float) -> None:
        device = self._session.device_of.get(name, name)
        self._slow(f"device {device}", factor, seconds, self._session.machines[device].set_speed)

    def _scale(self, names: list[str], factor: float, seconds: float) -> None:
        network = self._session.post.network
        for name in names:
            self._slow(name, factor, seconds, partial(network.scale, name))

    def _slow(self, what: str, factor: float, seconds: float, act: Callable[[float], None]) -> None:
        """Slow something down for a while, on top of whatever else slows it."""
        active = self._active[what]
        active.append(factor)
        act(math.prod(active))

        def end() -> None:
            active.remove(factor)
            act(math.prod(active))

        self._session.later(seconds, end)

    # -- links --------------------------------------------------------------------------------------------------

    def _pipes(self, fault: Fault) -> list[str]:
        """The pipes that belong to the link a fault names."""
        a, b = fault.link or ("", "")
        if a == b:
            return [f"{a}~", *(f"{d.name}.{way}" for d in self._session.job.continuum.devices if d.site == a
                               for way in ("up", "down"))]  # fmt: skip
        return [f"{a}->{b}", f"{b}->{a}", f"{a}--{b}", f"{b}--{a}"]

    def _cut_off(self, fault: Fault) -> list[str]:
        """The nodes that cannot be reached from where the coordinator is (the first server, or first worker)."""
        plan, routes = self._session.plan, self._session.routes
        home = (plan.servers or plan.workers)[0].device
        cut = set(self._pipes(fault))
        return [
            name for name, device in plan.device_of.items()
            if any(pipe.name in cut for pipe in routes.between(home, device).pipes)
        ]  # fmt: skip
