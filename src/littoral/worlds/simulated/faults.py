"""Faults in virtual time: what the job file says shall go wrong, goes wrong, and is noticed as in real life."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from littoral.events import FaultInjected, NodeLost, NodeReturned
from littoral.job import Fault

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session

DETECTION_S = 1.5  # three heartbeats of half a second
RESTART_S = 2.0  # a new process imports its libraries


CRASHED, LEFT = "crashed", "left"


@dataclass(frozen=True, eq=False)
class _Hold:
    """One fault that keeps nodes out; each is its own."""

    reason: str


class Faults:
    """Injects the faults of a job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._active: dict[str, list[float]] = defaultdict(list)  # by how much faults slow what at present
        self._holds: dict[str, set[_Hold]] = defaultdict(set)  # what keeps a node out at present

    def start(self) -> None:
        """Put every fault on the clock; after a resumption, what began earlier and still lasts takes effect now."""
        now = self._session.kernel.now
        for fault in self._session.job.faults:
            left = fault.at_s + fault.seconds - now
            if not self._applies(fault):
                continue
            if fault.at_s >= now:
                self._session.kernel.call_at(fault.at_s, self._inject, fault)
            elif left > 0 and fault.kind != "restart":
                self._session.kernel.call_soon(self._take_effect, replace(fault, at_s=now, seconds=left))

    def _applies(self, fault: Fault) -> bool:
        return not fault.node or fault.node in self._session.nodes or fault.node in self._session.machines

    def _inject(self, fault: Fault) -> None:
        session = self._session
        seconds = fault.seconds if math.isfinite(fault.seconds) else None
        session.emit(FaultInjected(session.kernel.now, fault.kind, fault.target, seconds, fault.factor))
        self._take_effect(fault)

    def _take_effect(self, fault: Fault) -> None:
        match fault.kind:
            case "crash":
                names = self._nodes_of(fault.node)
                for name in names:
                    self._kill(name)
                self._hold(names, self._down_s(fault) + RESTART_S, CRASHED)
            case "leave":
                names = self._nodes_of(fault.node)
                self._hold(names, fault.seconds, LEFT)
                for name in names:  # it says good-bye: nobody has to find out
                    self._kill(name)
                    self._report(name, LEFT)
            case "restart":
                self._later(RESTART_S, lambda: self._restart(fault.node))
            case "pause":
                self._slow_device(fault.node, 0.0, fault.seconds)
                self._slow_ports(fault.node, 0.0, fault.seconds)
                self._hold(self._nodes_of(fault.node), fault.seconds, "does not answer")
            case "slow-device":
                self._slow_device(fault.node, fault.factor, fault.seconds)
            case "slow-link":
                self._slow_link(fault, fault.factor)
            case "partition":
                self._slow_link(fault, 0.0)
                self._hold(self._cut_off(fault), fault.seconds, "is cut off")

    def _down_s(self, fault: Fault) -> float:
        """A server's process that dies is started again at once; whoever loses its device waits as long as it says."""
        is_server = any(server.name == fault.node for server in self._session.plan.servers)
        return 0.0 if is_server and math.isinf(fault.seconds) else fault.seconds

    def _restart(self, node: str) -> None:
        for name in self._nodes_of(node):
            self._holds[name] -= {hold for hold in self._holds[name] if hold.reason in (CRASHED, LEFT)}
            self._bring_back(name, CRASHED)

    def _nodes_of(self, name: str) -> list[str]:
        """A node of that name, or all nodes on the device of that name."""
        nodes, device_of = self._session.nodes, self._session.plan.device_of
        return [name] if name in nodes else [node for node, device in device_of.items() if device == name]

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        if math.isfinite(seconds):
            self._session.kernel.call_at(self._session.kernel.now + seconds, lambda _: act())

    # -- nodes --------------------------------------------------------------------------------------------------

    def _kill(self, name: str) -> None:
        """The process is gone; nobody knows yet."""
        node = self._session.nodes[name]
        if node.alive:
            node.alive = False
            node.noticed = False
            node.kill()
            self._session.ring.leave(name)
            self._session.withdraw(name)

    def _hold(self, names: list[str], seconds: float, reason: str) -> None:
        """Nodes are out for a while. Shorter than the detector's patience nobody notices, unless a process died."""
        hold = _Hold(reason)
        for name in names:
            self._holds[name].add(hold)

        def notice() -> None:
            for name in names:
                if hold in self._holds[name]:
                    self._kill(name)  # fenced: whoever is taken for dead must not go on
                    self._report(name, reason)

        def end() -> None:
            for name in names:
                if hold in self._holds[name]:
                    self._holds[name].remove(hold)
                    self._bring_back(name, reason)

        self._later(DETECTION_S, notice)
        self._later(seconds, end)

    def _bring_back(self, name: str, reason: str) -> None:
        """A node that nothing keeps out any more asks to join, if it had died or been fenced."""
        if not self._holds[name] and not self._session.nodes[name].alive:
            self._report(name, reason)
            self._session.emit(NodeReturned(self._session.kernel.now, name))

    def _report(self, name: str, reason: str) -> None:
        node = self._session.nodes[name]
        if not node.alive and not node.noticed:
            node.noticed = True
            self._session.emit(NodeLost(self._session.kernel.now, name, reason))

    def _slow_device(self, name: str, factor: float, seconds: float) -> None:
        device = self._session.plan.device_of.get(name, name)
        self._slow(f"device {device}", factor, seconds, self._session.machines[device].set_speed)

    def _slow(self, what: str, factor: float, seconds: float, act: Callable[[float], None]) -> None:
        """Slow something down for a while, on top of whatever else slows it."""
        active = self._active[what]
        active.append(factor)
        act(math.prod(active))

        def end() -> None:
            active.remove(factor)
            act(math.prod(active))

        self._later(seconds, end)

    # -- links --------------------------------------------------------------------------------------------------

    def _slow_ports(self, name: str, factor: float, seconds: float) -> None:
        device = self._session.plan.device_of.get(name, name)
        self._scale([f"{device}.up", f"{device}.down"], factor, seconds)

    def _slow_link(self, fault: Fault, factor: float) -> None:
        self._scale(self._pipes(fault), factor, fault.seconds)

    def _pipes(self, fault: Fault) -> list[str]:
        """The pipes that belong to the link a fault names."""
        a, b = fault.link or ("", "")
        if a == b:
            return [f"{a}~", *(f"{d.name}.{way}" for d in self._session.job.continuum.devices if d.site == a
                               for way in ("up", "down"))]  # fmt: skip
        return [f"{a}->{b}", f"{b}->{a}", f"{a}--{b}", f"{b}--{a}"]

    def _scale(self, names: list[str], factor: float, seconds: float) -> None:
        network = self._session.post.network
        for name in names:
            self._slow(name, factor, seconds, partial(network.scale, name))

    def _cut_off(self, fault: Fault) -> list[str]:
        """The nodes that cannot be reached from where the coordinator is (the first server, or first worker)."""
        plan, routes = self._session.plan, self._session.routes
        home = (plan.servers or plan.workers)[0].device
        cut = set(self._pipes(fault))
        return [
            name for name, device in plan.device_of.items()
            if any(pipe.name in cut for pipe in routes.between(home, device).pipes)
        ]  # fmt: skip
