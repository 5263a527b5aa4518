"""An app at work on a device while other things are measured there: every latency, on the machine's monotonic clock.

A process of its own, as in a run: it imports its libraries, enters the device's place, and ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from dataclasses import replace
from types import TracebackType

import msgspec

from littoral.apps.pacing import run_app
from littoral.apps.registry import find_app
from littoral.continuum.app import App
from littoral.errors import RunFailed
from littoral.events import DeadlineMissed, Event
from littoral.profiling import companion
from littoral.worlds.lab import ending
from littoral.worlds.lab.places import Place, enter

_AT_ONCE_S = 1e-9  # a deadline that every period misses, so that every one is told


class Order(msgspec.Struct):
    """Which app, where."""

    app: App
    device: str
    place: Place | None
    cores: float
    seed: int
    shake: float


class AppBench:
    """One app on one device, from entering to leaving the context."""

    def __init__(
        self, app: App, device: str, place: Place | None, *, cores: float = 1.0, seed: int = 0, shake: float = 0.0
    ) -> None:
        self.app, self.device = app, device
        self._order = Order(app, device, place, cores, seed, shake)
        self._heard: list[tuple[float, float | None]] = []  # when told, and the latency; None: dropped

    def __enter__(self) -> AppBench:
        find_app(self.app.run)  # complain here, not in a child
        self._process = companion.start(__name__, self._order)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdout is not None
        ending.end(self._process)
        self._listener.join()
        self._process.stdout.close()

    def wait_ready(self, limit_s: float = 60.0) -> None:
        """Until its first period is done; raises RunFailed if it never is."""
        end = time.monotonic() + max(limit_s, 10 * self.app.period_s)
        while not any(latency is not None for _, latency in self._heard):
            self._check()
            if time.monotonic() > end:
                raise RunFailed(
                    f"app {self.app.name!r} finished none of {len(self._heard)} periods on device {self.device!r}; "
                    "give it a longer period, or leave it out of the continuum's apps while profiling"
                )
            time.sleep(0.05)

    def latencies(self, start: float, end: float) -> list[float]:
        """Of the periods told in a window; a dropped period counts as one that took its whole period."""
        self._check()
        inside = [latency for told, latency in list(self._heard) if start <= told <= end]
        return [self.app.period_s if latency is None else latency for latency in inside]

    def _check(self) -> None:
        if self._process.poll() is not None:
            raise RunFailed(f"app {self.app.name!r} on device {self.device!r} ended: its error is above")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told, latency = json.loads(line)
            self._heard.append((told, latency))


def main() -> None:
    """The app's process: its order is a line on standard input."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    find_app(order.app.run)
    if order.place is not None:
        enter(order.place)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    app = replace(order.app, deadline_s=_AT_ONCE_S)
    asyncio.run(
        run_app(app, order.device, _tell, time.monotonic, seed=order.seed, cores=order.cores, shake=order.shake)
    )


def _tell(event: Event) -> None:
    if isinstance(event, DeadlineMissed):
        print(json.dumps([event.t, event.latency_s]), flush=True)


def _leave_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
