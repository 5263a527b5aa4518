"""Virtual time: a heap of (time, sequence, call, argument) that drives plain coroutines.

A coroutine hands the kernel a *trap* by yielding: a float means "wake me after that many seconds", None means "I am
parked; somebody will wake me". Ties run in the order they were scheduled, so a run is a pure function of its inputs.
There is no priority field: work that must see a whole instant (sharing a link among flows that start together)
registers with ``at_instant_end`` instead, which is one list rather than a comparison per heap operation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush, heapreplace
from types import coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Trap = float | None
Program = Coroutine[Any, Any, Any]
Resume = Callable[[Any], Any]


@coroutine
def sleep(seconds: float) -> Generator[float, None, None]:
    """Wake up ``seconds`` later."""
    yield seconds


@coroutine
def park() -> Generator[None, Any, Any]:
    """Give up control until somebody resumes this task; returns what it is resumed with."""
    return (yield None)


class Kernel:
    """The clock and the queue. ``now`` is in seconds since the start."""

    __slots__ = ("_current", "_dead", "_ends", "_heap", "_pausing", "_sequence", "events", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Resume, Any]] = []
        self._sequence = 0
        self._current: Resume = _nothing
        self._dead: set[Resume] = set()
        self._ends: list[Callable[[], None]] = []
        self._pausing = False

    def call_at(self, time: float, call: Resume, argument: Any = None) -> None:
        """Run ``call(argument)`` at ``time``, which must not be past."""
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, call, argument))

    def call_soon(self, call: Resume, argument: Any = None) -> None:
        """Run ``call(argument)`` at the present instant, after what is already queued for it."""
        self._sequence += 1
        heappush(self._heap, (self.now, self._sequence, call, argument))

    def at_instant_end(self, call: Callable[[], None]) -> None:
        """Run ``call()`` when nothing else is left to do at the present instant."""
        self._ends.append(call)

    def spawn(self, program: Program) -> Resume:
        """Start a coroutine now; the result is its handle."""
        resume = program.send
        self.call_soon(resume)
        return resume

    def kill(self, task: Resume) -> None:
        """End a coroutine where it stands (not from inside it); whatever was to wake it is ignored."""
        self._dead.add(task)
        program: Program = task.__self__  # type: ignore[attr-defined]
        program.close()

    @property
    def current(self) -> Resume:
        """The handle of the task that is running, which wakers of a parked task must keep."""
        return self._current

    def throw(self, task: Resume, error: BaseException) -> None:
        """Resume a *parked* task with an exception."""
        program: Program = task.__self__  # type: ignore[attr-defined]

        def raise_inside(_: Any) -> Any:
            if task in self._dead:
                return None
            self._current = task
            return program.throw(error)

        self.call_soon(raise_inside)

    def pause(self) -> None:
        """Let ``run`` return when the present instant is over."""
        self._pausing = True

    def run(self, until: float = math.inf) -> bool:
        """Work until somebody calls ``pause`` (True), or nothing is left to do up to ``until`` (False)."""
        heap, dead, now = self._heap, self._dead, self.now
        while True:
            if heap and (entry := heap[0])[0] <= now:
                self._current = call = entry[2]
                self.events += 1
                if dead and call in dead:
                    heappop(heap)
                    continue
                try:
                    trap = call(entry[3])
                except StopIteration:
                    heappop(heap)
                    continue
                # INVARIANT: whatever the call scheduled has a larger (time, sequence), so entry is still heap[0].
                if trap is None:
                    heappop(heap)
                else:
                    self._sequence += 1
                    heapreplace(heap, (now + trap, self._sequence, self._current, None))
            elif self._ends:
                ends, self._ends = self._ends, []
                for end in ends:
                    end()
            elif self._pausing:
                self._pausing = False
                return True
            elif not heap or heap[0][0] > until:
                self.now = max(now, until) if heap else now
                return False
            else:
                self.now = now = heap[0][0]


class Task(Coroutine[Any, Any, Any]):
    """A coroutine that others may await while the kernel drives it: they get its result."""

    __slots__ = ("_done", "_ended", "_kernel", "_program", "_result", "_waiting")

    def __init__(self, kernel: Kernel, program: Program, ended: Callable[[], None] = lambda: None) -> None:
        self._kernel, self._program, self._ended = kernel, program, ended
        self._waiting: list[Resume] = []
        self._done, self._result = False, None

    def send(self, value: Any) -> Any:
        """Go on; at its end, wake those who wait for it."""
        try:
            return self._program.send(value)
        except StopIteration as end:
            self._finish(end.value)
            raise

    def throw(self, *error: Any) -> Any:
        """Go on with an exception."""
        try:
            return self._program.throw(*error)
        except StopIteration as end:
            self._finish(end.value)
            raise

    def close(self) -> None:
        """End where it stands."""
        self._program.close()

    def __await__(self) -> Generator[None, Any, Any]:
        if not self._done:
            self._waiting.append(self._kernel.current)
            yield None
        return self._result

    def _finish(self, result: Any) -> None:
        self._done, self._result = True, result
        self._ended()
        for waiting in self._waiting:
            self._kernel.call_soon(waiting)


class Mailbox(Generic[T]):
    """Messages to one reader, in order of arrival; ``put`` may be delayed by a latency."""

    __slots__ = ("_arrive", "_heap", "_kernel", "_queue", "_reader")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._heap, self._arrive = kernel, kernel._heap, self._deliver
        self._queue: deque[T] = deque()
        self._reader: Resume | None = None

    def put(self, message: T, latency: float = 0.0) -> None:
        """Deliver ``message`` after ``latency`` seconds."""
        kernel = self._kernel
        kernel._sequence = sequence = kernel._sequence + 1
        heappush(self._heap, (kernel.now + latency, sequence, self._arrive, message))

    def _deliver(self, message: T) -> Any:
        reader = self._reader
        if reader is None:
            self._queue.append(message)
            return None
        # Resume the reader within this very event: its next trap becomes ours.
        self._reader = None
        self._kernel._current = reader
        return reader(message)

    @coroutine
    def get(self) -> Generator[None, T, T]:
        """The next message, waiting for one if there is none."""
        if self._queue:
            return self._queue.popleft()
        self._reader = self._kernel._current
        return (yield None)


def _nothing(_: Any) -> None:
    return None
