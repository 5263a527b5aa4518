"""A fluid network: every flow gets its max-min fair share of every pipe on its way, at every instant.

Flows that pass the same *shared* pipes under the same private cap always have the same rate, so they form one class
with one counter of bytes served per flow; a flow is done when the counter reaches its tag. A change touches the
classes it can reach through shared pipes, not the flows: a thousand workers pushing to one server are a handful
of classes (one per kind of port), and the cost of an event does not grow with their number.

Not modelled: packets, slow start, queues. Loss is a cap per flow (see ``continuum.link.loss_limit``).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from littoral.continuum.routes import Pipe, Route
from littoral.worlds.simulated.kernel import Kernel

_SLACK = 1e-6  # bytes: two flows that end closer than this end together


class Flow:
    """Bytes under way on a route."""

    __slots__ = ("done", "group", "limit", "pipes", "size", "tag")

    def __init__(self, pipes: tuple[_Pipe, ...], limit: float, size: float, done: Callable[[], None]) -> None:
        self.pipes, self.limit, self.size, self.done = pipes, limit, size, done
        self.group: _Class | None = None
        self.tag = 0.0


class _Pipe:
    """A pipe in use: its present capacity, its flows and the classes that share it."""

    __slots__ = ("capacity", "classes", "described", "factor", "flows", "watching")

    def __init__(self, described: Pipe) -> None:
        self.described = described
        self.factor = 1.0
        self.capacity = 0.0
        self.flows: dict[Flow, None] = {}
        self.classes: dict[_Class, None] = {}
        self.watching = False


class _Class:
    """Flows with the same shared pipes and the same cap, hence the same rate."""

    __slots__ = ("cap", "count", "due", "heap", "pipes", "rate", "served", "since", "version")

    def __init__(self, pipes: tuple[_Pipe, ...], cap: float, now: float) -> None:
        self.pipes, self.cap, self.since = pipes, cap, now
        self.rate = 0.0
        self.served = 0.0  # bytes each member got since the class began
        self.count = 0
        self.version = 0
        self.due = math.inf  # when the pending wake-up fires; it may prove early, never late
        self.heap: list[tuple[float, int, Flow]] = []


class FluidNetwork:
    """Carries flows in virtual time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._pipes: dict[str, _Pipe] = {}
        self._factors: dict[str, float] = {}  # set by faults, perhaps before a pipe's first flow
        self._classes: dict[tuple[tuple[int, ...], float], _Class] = {}
        self._dirty: dict[_Pipe, None] = {}
        self._fresh: dict[_Class, None] = {}
        self._order = 0
        self._waiting = False

    def start(self, route: Route, size: float, done: Callable[[], None]) -> Flow:
        """Send ``size`` bytes along ``route``; ``done()`` is called when the last one has left the last pipe."""
        now = self._kernel.now
        pipes = tuple(self._pipe(described) for described in route.pipes)
        flow = Flow(pipes, route.flow_limit, size, done)
        for pipe in pipes:
            if not pipe.flows:
                self._wake(pipe, now)
            pipe.flows[flow] = None
            if len(pipe.flows) == 2:
                self._replace(next(iter(pipe.flows)))
        self._place(flow, size)
        return flow

    def stop(self, flow: Flow) -> None:
        """Withdraw a flow (its sender or receiver is gone); ``done`` is never called."""
        if flow.group is not None:
            self._leave(flow)
            self._detach(flow)

    def scale(self, name: str, factor: float) -> None:
        """Multiply the capacity of a pipe by ``factor`` from now on (0 cuts it, 1 restores it)."""
        self._factors[name] = factor
        pipe = self._pipes.get(name)
        if pipe is not None:
            pipe.factor = factor
            if pipe.flows:
                self._refresh(pipe)

    # -- pipes --------------------------------------------------------------------------------------------------

    def _pipe(self, described: Pipe) -> _Pipe:
        pipe = self._pipes.get(described.name)
        if pipe is None:
            pipe = self._pipes[described.name] = _Pipe(described)
            pipe.factor = self._factors.get(described.name, 1.0)
        return pipe

    def _wake(self, pipe: _Pipe, now: float) -> None:
        pipe.capacity = self._capacity(pipe)
        self._watch(pipe, now)

    def _watch(self, pipe: _Pipe, now: float) -> None:
        change = pipe.described.capacity.next_change(now)
        if not pipe.watching and math.isfinite(change):
            pipe.watching = True
            self._kernel.call_at(max(change, now), self._capacity_due, pipe)

    def _capacity_due(self, pipe: _Pipe) -> None:
        pipe.watching = False
        if pipe.flows:
            self._watch(pipe, self._kernel.now)
            self._refresh(pipe)

    def _refresh(self, pipe: _Pipe) -> None:
        capacity = self._capacity(pipe)
        if capacity == pipe.capacity:
            return
        pipe.capacity = capacity
        if len(pipe.flows) == 1:
            self._replace(next(iter(pipe.flows)))
        self._touch(pipe)

    def _capacity(self, pipe: _Pipe) -> float:
        # A port without a limit of its own has infinite capacity, and infinity times nothing is no number.
        return pipe.described.capacity.at(self._kernel.now) * pipe.factor if pipe.factor else 0.0

    def _touch(self, pipe: _Pipe) -> None:
        self._dirty[pipe] = None
        self._arm()

    def _arm(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._kernel.at_instant_end(self._share)

    # -- classes ------------------------------------------------------------------------------------------------

    def _place(self, flow: Flow, remaining: float) -> None:
        shared = tuple(pipe for pipe in flow.pipes if len(pipe.flows) > 1)
        cap = flow.limit
        for pipe in flow.pipes:
            if len(pipe.flows) == 1 and pipe.capacity < cap:
                cap = pipe.capacity
        key = (tuple(map(id, shared)), cap)
        group = self._classes.get(key)
        if group is None:
            group = self._classes[key] = _Class(shared, cap, self._kernel.now)
            for pipe in shared:
                pipe.classes[group] = None
        self._settle(group)
        group.count += 1
        flow.group, flow.tag = group, group.served + remaining
        self._order += 1
        heapq.heappush(group.heap, (flow.tag, self._order, flow))
        for pipe in shared:
            self._dirty[pipe] = None
        self._fresh[group] = None
        self._arm()

    def _leave(self, flow: Flow) -> float:
        """Take a flow out of its class; the bytes it still has to carry."""
        group = flow.group
        assert group is not None
        self._settle(group)
        flow.group = None
        self._dismiss(group, 1)
        return max(0.0, flow.tag - group.served)

    def _forget(self, group: _Class) -> None:
        group.version += 1
        self._fresh.pop(group, None)
        del self._classes[tuple(map(id, group.pipes)), group.cap]
        for pipe in group.pipes:
            del pipe.classes[group]

    def _replace(self, flow: Flow) -> None:
        """The flow's shared pipes or private cap changed: find its class anew."""
        if flow.group is not None:
            self._place(flow, self._leave(flow))

    def _detach(self, flow: Flow) -> None:
        for pipe in flow.pipes:
            del pipe.flows[flow]
            if len(pipe.flows) == 1:
                self._replace(next(iter(pipe.flows)))

    def _settle(self, group: _Class) -> None:
        now = self._kernel.now
        if now > group.since:
            group.served += group.rate * (now - group.since)
            group.since = now

    # -- sharing ------------------------------------------------------------------------------------------------

    def _share(self) -> None:
        self._waiting = False
        fresh, self._fresh = self._fresh, {}
        dirty, self._dirty = self._dirty, {}
        classes, pipes = self._reach(fresh, dirty)
        rates = _fill_one(next(iter(pipes)), classes) if len(pipes) == 1 else _water_fill(classes, pipes)
        for group, rate in rates.items():
            if rate != group.rate or group in fresh:
                self._settle(group)
                group.rate = rate
                self._schedule(group)

    def _reach(
        self, fresh: dict[_Class, None], dirty: dict[_Pipe, None]
    ) -> tuple[dict[_Class, None], dict[_Pipe, None]]:
        """Every class a change can affect, through shared pipes."""
        pipes: dict[_Pipe, None] = {}
        classes: dict[_Class, None] = dict(fresh)
        todo = list(dirty)  # the pipes of a fresh class are dirty
        while todo:
            pipe = todo.pop()
            if pipe not in pipes:
                pipes[pipe] = None
                for group in pipe.classes:
                    if group not in classes or group in fresh:
                        classes[group] = None
                        if len(group.pipes) > 1:
                            todo.extend(group.pipes)
        return classes, pipes

    def _schedule(self, group: _Class) -> None:
        """See to it that the class wakes up when its next flow ends, or before."""
        heap = group.heap
        self._drop_stale(group)
        if heap and group.rate > 0:
            due = self._kernel.now + max(0.0, heap[0][0] - group.served) / group.rate
            if due < group.due:
                group.version += 1
                group.due = due
                self._kernel.call_at(due, self._class_due, (group, group.version))

    def _class_due(self, due: tuple[_Class, int]) -> None:
        group, version = due
        if version != group.version:
            return
        early = self._is_early(group)
        group.due = math.inf
        if early:
            self._schedule(group)
            return
        finished = self._finished(group)
        self._dismiss(group, len(finished))
        for flow in finished:
            self._detach(flow)
        for flow in finished:
            flow.done()

    @staticmethod
    def _drop_stale(group: _Class) -> None:
        """Forget entries of flows that left the class."""
        heap = group.heap
        while heap and (heap[0][2].group is not group or heap[0][2].tag != heap[0][0]):
            heapq.heappop(heap)

    def _is_early(self, group: _Class) -> bool:
        """Whether the rate fell since the wake-up was set; rounding alone does not count."""
        self._settle(group)
        heap = group.heap
        self._drop_stale(group)
        now = self._kernel.now
        return group.rate <= 0 or now + (heap[0][0] - group.served) / group.rate > now + 1e-12 * max(1.0, now)

    def _finished(self, group: _Class) -> list[Flow]:
        heap = group.heap
        group.served = max(group.served, heap[0][0])  # what rounding left over
        finished: list[Flow] = []
        while heap and heap[0][0] <= group.served + _SLACK:
            tag, _, flow = heapq.heappop(heap)
            if flow.group is group and flow.tag == tag:
                flow.group = None
                finished.append(flow)
        return finished

    def _dismiss(self, group: _Class, count: int) -> None:
        """``count`` members are gone."""
        group.count -= count
        for pipe in group.pipes:
            self._dirty[pipe] = None
        if group.count == 0:
            self._forget(group)
        else:
            self._fresh[group] = None
        self._arm()


def _fill_one(pipe: _Pipe, classes: dict[_Class, None]) -> dict[_Class, float]:
    """The usual case, one shared pipe: whoever cannot take an even share leaves the rest to the others."""
    rates = {}
    left, count = pipe.capacity, sum(group.count for group in pipe.classes)
    for group in sorted(classes, key=_cap):
        if not group.pipes:
            rates[group] = group.cap
            continue
        rate = min(group.cap, left / count)
        rates[group] = rate
        left = max(0.0, left - rate * group.count)
        count -= group.count
    return rates


def _cap(group: _Class) -> float:
    return group.cap


def _water_fill(classes: dict[_Class, None], pipes: dict[_Pipe, None]) -> dict[_Class, float]:
    """Raise all rates together; freeze a class when its cap or one of its pipes is reached."""
    rates: dict[_Class, float] = {}
    left = {pipe: pipe.capacity for pipe in pipes}
    active = {pipe: sum(group.count for group in pipe.classes) for pipe in pipes}
    capped = sorted(classes, key=_cap, reverse=True)  # whose cap is reached next comes last
    while capped:
        full, level = None, math.inf
        for pipe, count in active.items():
            if count and left[pipe] / count < level:
                full, level = pipe, left[pipe] / count
        if capped[-1].cap <= level:
            frozen = [capped.pop()]
        else:
            assert full is not None, "a class without a pipe has a cap that is reached"
            frozen = [group for group in full.classes if group not in rates]
        for group in frozen:
            rates[group] = rate = min(level, group.cap)
            for pipe in group.pipes:
                left[pipe] = max(0.0, left[pipe] - rate * group.count)
                active[pipe] -= group.count
        while capped and capped[-1] in rates:
            capped.pop()
    return rates
