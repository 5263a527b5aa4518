"""All-reduce in virtual time, as one act.

Up to ``DIRECT`` members exchange directly, as processes do: everyone owns 1/n of the vector, gets it from all and
gives its mean to all. Each pair's two messages are one flow of 2M/n bytes, and two hops of latency follow. Larger
groups are a ring, which has the same bytes and fewer flows: 2(n-1)/n * M over each of n links and 2(n-1) hops of
latency. Both complete for all members at the same instant or for none.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any

from littoral.continuum.link import HEADER_BYTES
from littoral.events import Sent
from littoral.worlds.node import Gradient, Reduced, Regrouped
from littoral.worlds.simulated.kernel import Resume
from littoral.worlds.simulated.network import Flow

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


DIRECT = 8  # members that talk to each other directly; beyond, flows would be too many to simulate


def legs(members: Sequence[str]) -> list[tuple[str, str]]:
    """Who sends to whom."""
    if len(members) <= DIRECT:
        return [(a, b) for a in members for b in members if a != b]
    return list(zip(members, [*members[1:], members[0]], strict=True))


def leg_bytes(vector_bytes: int, members: int) -> int:
    """What one leg carries in one all-reduce."""
    if members <= DIRECT:
        return 2 * -(-vector_bytes // members) + 2 * HEADER_BYTES
    return ring_bytes(vector_bytes, members) + HEADER_BYTES


def leg_latency(latencies: Sequence[float], members: int) -> float:
    """What latency adds, given every leg's."""
    if members <= DIRECT:
        return 2 * max(latencies)
    return 2 * (members - 1) / members * sum(latencies)


def ring_bytes(vector_bytes: int, members: int) -> int:
    """What each member sends in one all-reduce.

    >>> ring_bytes(1000, 4)
    1500
    """
    return -(-2 * (members - 1) * vector_bytes // members)


class Ring:
    """The meeting point of the present members."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._here: dict[str, tuple[Gradient, Resume]] = {}
        self._flows: list[Flow] = []
        self._under_way = 0
        self._round = 0

    @coroutine
    def join(self, node: str, gradient: Gradient) -> Generator[None, Any, Reduced]:
        """Contribute and wait for the result."""
        self._here[node] = (gradient, self._session.kernel.current)
        if len(self._here) == len(self._session.members):
            self._start()
        reduced: Reduced = yield None
        return reduced

    def leave(self, gone: str) -> None:
        """A member died: what is under way cannot complete, and the others wait until the group changes."""
        self._here.pop(gone, None)
        self._halt()

    def abort(self) -> None:
        """The group changed: whoever waits here starts over."""
        waiting, self._here = self._here, {}
        self._halt()
        for gradient, task in waiting.values():
            if gradient.lease is not None:
                self._session.books.release([gradient.lease])
            self._session.kernel.throw(task, Regrouped())

    def _halt(self) -> None:
        for flow in self._flows:
            self._session.post.network.stop(flow)
        self._flows = []
        self._round += 1

    def _start(self) -> None:
        session, members = self._session, self._session.members
        start, size = session.kernel.now, 0
        self._round += 1
        number = self._round
        pairs = legs(members) if len(members) > 1 else []
        if pairs:
            vector = next(iter(self._here.values()))[0].vector
            vector_bytes = (vector.half() if session.plan.wire == "float16" else vector).nbytes
            size = leg_bytes(vector_bytes, len(members))
        self._under_way = len(pairs)

        def finish(_: None = None) -> None:
            if number == self._round:
                self._finish(pairs, size, start)

        def arrived() -> None:
            self._under_way -= 1
            if self._under_way == 0:
                latency = leg_latency([route.latency_s for route in routes], len(members))
                session.kernel.call_at(session.kernel.now + latency, finish)

        routes = [session.post.route(source, target) for source, target in pairs]
        for route in routes:
            if route.pipes:
                self._flows.append(session.post.network.start(route, size, arrived))
            else:
                session.kernel.call_soon(lambda _: arrived())
        if not pairs:
            session.kernel.call_soon(finish)

    def _finish(self, pairs: list[tuple[str, str]], size: int, start: float) -> None:
        session = self._session
        here, self._here, self._flows = self._here, {}, []
        now = session.kernel.now
        for source, target in pairs:
            wide = session.post.route(source, target).wide_area
            session.emit(Sent(now, source, target, "Share", size, start, wide))
        parts = [here[name][0] for name in session.members]
        for name in session.members:
            lease = here[name][0].lease
            if lease is not None:
                session.books.commit([lease])
        samples = sum(part.samples for part in parts)
        narrow = session.plan.wire == "float16" and len(parts) > 1
        vectors = [part.vector.half().float() if narrow else part.vector for part in parts]
        weighted = [(v, float(part.samples)) for v, part in zip(vectors, parts, strict=True) if part.samples]
        model = session.nodes[session.members[0]].model
        mean = model.mean(weighted) if weighted else parts[0].vector
        mean = mean.half().float() if narrow else mean
        for name in session.members:
            session.kernel.call_soon(here[name][1], Reduced(mean, samples))
