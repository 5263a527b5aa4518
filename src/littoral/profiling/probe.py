"""Watches how busy a device is, ten times a second, and sums it up over any window.

Its own cost at ten samples a second, on a busy virtual machine of two cores: 0.4 % of a core for a whole machine, 0.7 %
for a device of control groups, and 0.6 % more for every hundred threads in them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from littoral.errors import InputError, RunFailed
from littoral.profiling.devices import Device
from littoral.profiling.readings import Reading
from littoral.profiling.rows import State
from littoral.profiling.samples import Sample, between, summarise

if TYPE_CHECKING:
    from littoral.worlds.lab.places import Place

Clock = Callable[[], float]
KEPT = 18_000  # samples: half an hour at ten per second


class Source(Protocol):
    """What a probe reads."""

    def read(self, at: float) -> Reading: ...

    def close(self) -> None: ...


class Probe:
    """Samples a device in a thread of its own while it is open.

    ``place`` is a device of a lab, None this machine (or the container that this process is in). ``card`` is
    the number of its graphics card, None for none. ``clock`` gives the times by which windows are asked for. Of the
    samples the last ``keep`` are kept.
    """

    def __init__(
        self, place: Place | None = None, every_s: float = 0.1, *, clock: Clock = time.monotonic, keep: int = KEPT,
        source: Source | None = None, card: int | None = 0,
    ) -> None:  # fmt: skip
        if not 0.001 <= every_s < math.inf:
            raise InputError(f"a probe every {every_s} s", remedy="give at least a millisecond")
        self.samples: deque[Sample] = deque(maxlen=keep)
        self.clock = clock
        self._every_s, self._source = every_s, source or Device(place, card)
        self._last: Reading | None = None
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def __enter__(self) -> Probe:
        self.take()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._source.close()

    def take(self) -> None:
        """Read the device now; the thread does so by itself."""
        reading = self._source.read(self.clock())
        if self._last is not None and reading.at > self._last.at:
            self.samples.append(between(self._last, reading))
        self._last = reading

    def summary(self, start: float, end: float, quantile: float | None = 0.95) -> State:
        """The state between two moments of the clock; with None for means."""
        if self._error is not None:
            raise RunFailed(f"the probe ended: {self._error}") from self._error
        inside = [sample for sample in self.samples.copy() if sample.at - sample.seconds >= start and sample.at <= end]
        if not inside:
            raise RunFailed(f"the probe has no sample between {start:.1f} and {end:.1f} s on its clock")
        return summarise(inside, quantile)

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            now = time.monotonic()
            due = max(due + self._every_s, now + self._every_s / 2)  # after a late sample no short one
            if self._ended.wait(due - now):
                return
            try:
                self.take()
            except Exception as error:  # told to whoever asks for a summary
                self._error = error
                return


def settle(
    probe: Probe, *, window_s: float = 1.0, tolerance: float = 0.03, limit_s: float = 20.0,
    sleep: Callable[[float], None] = time.sleep,
) -> State:  # fmt: skip
    """Wait until processor and memory of two windows on end agree; the mean state over both of them.

    After ``limit_s`` the state is taken as it is, with a warning in the log.
    """
    begin = earlier = start = probe.clock()
    before: State | None = None
    while True:
        sleep(window_s)
        end = probe.clock()
        now = probe.summary(start, end, None)
        if before is not None and _alike(before, now, tolerance):
            return probe.summary(earlier, end, None)
        if end - begin >= limit_s:
            logging.getLogger(__name__).warning("not steady after %.0f s: processor %.2f", limit_s, now.cpu)
            return now
        earlier, start, before = start, end, now


def _alike(one: State, other: State, tolerance: float) -> bool:
    return abs(one.cpu - other.cpu) <= tolerance and abs(one.memory - other.memory) <= tolerance
