"""All-reduce in virtual time, as one act: the messages of ``planning.collective``, a phase after the other.

It completes for all members at the same instant or for none.
"""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine
from typing import TYPE_CHECKING, Any

from littoral.events import Sent
from littoral.planning.collective import Sending, cut, hops, phases
from littoral.worlds.node import Gradient, Reduced, Regrouped
from littoral.worlds.simulated.kernel import Resume
from littoral.worlds.simulated.network import Flow

if TYPE_CHECKING:
    from littoral.worlds.simulated.session import Session


class Ring:
    """The meeting point of the present members."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._here: dict[str, tuple[Gradient, Resume]] = {}
        self._flows: list[Flow] = []
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
        self._round += 1
        vector = next(iter(self._here.values()))[0].vector
        parts = cut(members, session.plan.reducing, vector.nbytes // 4)
        self._send(self._round, phases(parts, 2 if session.plan.wire == "float16" else 4))

    def _send(self, number: int, ahead: list[list[Sending]]) -> None:
        """One phase, then those after it; then the result."""
        session = self._session
        if number != self._round:
            return
        if not ahead:
            session.kernel.call_soon(lambda _: self._finish(number))
            return
        phase, start = ahead[0], session.kernel.now
        routes = [session.post.route(leg.source, leg.target) for leg in phase]
        under_way = len(phase)

        def over(_: None = None) -> None:
            if number == self._round:
                for leg, route in zip(phase, routes, strict=True):
                    now = session.kernel.now
                    session.emit(Sent(now, leg.source, leg.target, leg.kind, leg.size, start, route.wide_area))
                self._send(number, ahead[1:])

        def arrived() -> None:
            nonlocal under_way
            under_way -= 1
            if under_way == 0:
                latency = hops([route.latency_s for route in routes], len(session.members))
                session.kernel.call_at(session.kernel.now + latency, over)

        self._flows = []
        for leg, route in zip(phase, routes, strict=True):
            if route.pipes:
                self._flows.append(session.post.network.start(route, leg.size, arrived))
            else:
                session.kernel.call_soon(lambda _: arrived())

    def _finish(self, number: int) -> None:
        if number != self._round:
            return
        session = self._session
        here, self._here, self._flows = self._here, {}, []
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
