"""Faults for real: processes are killed and stopped by signals, links cut and slowed by the lab's router."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from littoral.errors import InputError
from littoral.events import FaultInjected
from littoral.job import COORDINATOR, Fault, Job

if TYPE_CHECKING:
    from littoral.worlds.processes.seats import Seat
    from littoral.worlds.processes.session import Session

LAB_FAULTS = ("slow-device", "slow-link", "partition")


def check_faults(job: Job, lab: bool) -> None:
    """Refuse faults that this world cannot inject, before anything starts."""
    for fault in job.faults:
        if fault.kind in LAB_FAULTS and not lab:
            raise InputError(
                f"a {fault.kind} fault needs the lab: elsewhere there are no links or quotas to change",
                remedy="run with --lab (as root), or in the simulated world",
            )


class Faults:
    """Injects the faults of a job, and keeps processes from coming back while a fault holds them.

    ``struck`` faults of the coordinator are behind it: it was killed by them, and resumed from before they happened.
    """

    def __init__(self, session: Session, struck: int = 0) -> None:
        self._session = session
        self._timers: list[asyncio.TimerHandle] = []
        self._held: dict[str, float] = {}  # until when a seat must stay empty
        self._waiting: dict[str, Callable[[], None]] = {}
        self._active: dict[str, list[float]] = defaultdict(list)
        own = sorted((fault for fault in session.job.faults if fault.node == COORDINATOR), key=lambda fault: fault.at_s)
        self._behind = own[:struck]

    def start(self) -> None:
        """Put every fault on the clock; what began before a resumption and still lasts takes effect now."""
        now = self._session.clock()
        for fault in self._session.job.faults:
            if fault in self._behind:
                continue
            if fault.at_s >= now:
                self._later(fault.at_s - now, partial(self._inject, fault))
            elif fault.at_s + fault.seconds > now and fault.kind != "restart":
                self._take_effect(fault, fault.at_s + fault.seconds - now)

    def close(self) -> None:
        """Forget what has not happened yet."""
        for timer in self._timers:
            timer.cancel()

    def when_free(self, seat: Seat, launch: Callable[[Seat], None], after_s: float = 0.0) -> None:
        """Launch a process for a seat after a pause, or when no fault holds it any more."""
        left = max(after_s, self._held.get(seat.name, 0.0) - self._session.clock())
        self._waiting[seat.name] = lambda: launch(seat)
        if left <= 0:
            self._free(seat.name)
        elif math.isfinite(left):
            self._later(left, lambda: self._free(seat.name))

    def _free(self, name: str) -> None:
        act = self._waiting.pop(name, None)
        if act is not None:
            act()

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        if math.isfinite(seconds):
            self._timers.append(asyncio.get_running_loop().call_later(max(0.0, seconds), act))

    def _inject(self, fault: Fault) -> None:
        seconds = fault.seconds if math.isfinite(fault.seconds) else None
        self._session.emit(FaultInjected(self._session.clock(), fault.kind, fault.target, seconds, fault.factor))
        self._take_effect(fault, fault.seconds)

    def _hit_coordinator(self, kind: str, seconds: float) -> None:
        """Ourselves: killed, until somebody resumes the run, or stopped, until a helper of ours wakes us up."""
        if kind == "pause":
            wake = f"sleep {seconds}; kill -CONT {os.getpid()}"
            subprocess.Popen(["sh", "-c", wake], start_new_session=True)  # it outlives our sleep, not more
        os.kill(os.getpid(), signal.SIGSTOP if kind == "pause" else signal.SIGKILL)

    def _take_effect(self, fault: Fault, seconds: float) -> None:
        if fault.node == COORDINATOR:
            # A moment later, so that the journal has it.
            self._later(0.3, partial(self._hit_coordinator, fault.kind, seconds))
            return
        seats = self._seats_of(fault.node)
        match fault.kind:
            case "crash" | "leave":
                for seat in seats:
                    self._hold(seat, self._down_s(seat, seconds))
                    self._session.launcher.signal(seat.name, signal.SIGKILL)
            case "restart":
                for seat in seats:
                    self._held.pop(seat.name, None)
                    self._free(seat.name)
            case "pause":
                for seat in seats:
                    self._hold(seat, seconds)
                    self._session.launcher.signal(seat.name, signal.SIGSTOP)
                    self._later(seconds, partial(self._session.launcher.signal, seat.name, signal.SIGCONT))
            case "slow-device":
                for device in {seat.device for seat in seats}:
                    self._slow(f"device {device}", fault.factor, seconds)
            case "slow-link" | "partition":
                factor = 0.0 if fault.kind == "partition" else fault.factor
                for pipe in self._pipes(fault):
                    self._slow(pipe, factor, seconds)

    def _down_s(self, seat: Seat, seconds: float) -> float:
        """A server's or store's process that dies is started again at once; a worker's device may be gone for good."""
        return 0.0 if seat.kind != "worker" and math.isinf(seconds) else seconds

    def _hold(self, seat: Seat, seconds: float) -> None:
        until = self._session.clock() + seconds
        self._held[seat.name] = max(self._held.get(seat.name, 0.0), until)

    def _seats_of(self, name: str) -> list[Seat]:
        """The process of that name, or all on the device of that name."""
        seats = self._session.crew.seats
        return (
            [seats[name]] if name in seats else [seat for seat in seats.values() if seat.device == name and seat.trains]
        )

    def _pipes(self, fault: Fault) -> list[str]:
        """The pipes of the lab that belong to the link a fault names."""
        a, b = fault.link or ("", "")
        devices = [device.name for device in self._session.job.continuum.devices if device.site == a]
        inside = [f"{a}~", *(f"{device}.{way}" for device in devices for way in ("up", "down"))]
        named = inside if a == b else [f"{a}->{b}", f"{b}->{a}", f"{a}--{b}", f"{b}--{a}"]
        lab = self._session.ground.lab
        assert lab is not None
        return [pipe for pipe in named if pipe in lab.wiring.pipes]

    def _slow(self, what: str, factor: float, seconds: float) -> None:
        """Slow something down for a while, on top of whatever else slows it."""
        active = self._active[what]
        active.append(factor)
        self._apply(what)

        def end() -> None:
            active.remove(factor)
            self._apply(what)

        self._later(seconds, end)

    def _apply(self, what: str) -> None:
        lab = self._session.ground.lab
        assert lab is not None
        factor = math.prod(self._active[what])
        if what.startswith("device "):
            lab.set_speed(what.removeprefix("device "), factor)
        else:
            lab.scale(what, factor)
