"""One node's end of the wire: it meets peers, queues messages to them, and hands out what arrives from them.

Every endpoint has one listening socket and, per peer, one connection it made itself; data goes out on the latter and
its acknowledgements come back on it. Within one incarnation of a peer every message arrives exactly once, and in
order among those of its priority, whatever happens to connections in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zmq

from littoral.worlds.node import Message
from littoral.worlds.wire.desk import Arrival, Desk
from littoral.worlds.wire.frames import Ack, Codec, Priority
from littoral.worlds.wire.gate import Gate, server_socket
from littoral.worlds.wire.keys import KeyPair
from littoral.worlds.wire.limits import Limits
from littoral.worlds.wire.link import Link, Peer, PeerGone, Surroundings
from littoral.worlds.wire.outbox import Parcel
from littoral.worlds.wire.refusals import Refusal, Refusals

__all__ = ["Arrival", "Endpoint", "Limits", "Peer", "PeerGone", "Refusal", "Traffic"]

_TICK_S = 0.5
_MOST_SOCKETS = 8192  # three per peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What went over one link. The rate is what the link delivered while it was the bottleneck; None until measured."""

    sent_bytes: int
    received_bytes: int
    rate_bytes_per_s: float | None
    round_trip_s: float | None
    queued_bytes: int
    in_flight_bytes: int
    connected: bool


class Endpoint:
    """Sends messages to peers it was told to meet, and receives theirs. All calls belong on one event loop."""

    def __init__(
        self,
        name: str,
        keys: KeyPair | None,
        codec: Codec,
        *,
        limits: Limits = Limits(),
        on_refusal: Callable[[Refusal], None] = lambda refusal: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._keys, self._codec, self._limits, self._clock = keys, codec, limits, clock
        self._refusals = Refusals(on_refusal)
        self._peers: dict[str, Peer] = {}
        self._names: dict[bytes, str] = {}  # by public key
        self._links: dict[str, Link] = {}
        self._session = 0
        self._around: Surroundings | None = None  # while open
        self._flushed: asyncio.Future[None] | None = None
        self._inbox: tuple[deque[Arrival], ...] = tuple(deque() for _ in Priority)
        self._readers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def open(self, host: str = "127.0.0.1") -> str:
        """Listen on a free port of ``host``; gives the address for others to connect to."""
        if self._around is not None or self._closed:
            raise RuntimeError(f"endpoint {self.name} was opened before: an endpoint is opened once")
        context = zmq.Context(io_threads=1)
        context.max_sockets = _MOST_SOCKETS
        self._gate = Gate(context, self._names, self._refusals)
        router = server_socket(context, self._keys)
        self._desk = Desk(
            router, self._name_of, self._codec, self._limits, self._refusals, self._clock, self._arrived,
            self._acknowledged, self._met,
        )  # fmt: skip
        self._around = Surroundings(
            context, self.name, self._keys, self._clock, self._refusals, self._next_session, self._emptied,
            self._desk.take_along, self._desk.answer_again,
        )  # fmt: skip
        self._ticking = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        try:
            router.bind(f"tcp://{host}:*")
        except zmq.ZMQError as error:
            await self.close()
            raise OSError(f"endpoint {self.name} cannot listen on {host}: {error}") from error
        for peer in self._peers.values():
            self._link(peer)
        return bytes(router.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def meet(self, peer: Peer) -> None:
        """Let a peer's key in and be able to send to it. A known name with another key or address is a new incarnation.

        A peer may be let in before it is known where it listens, with an empty address.
        """
        if self._closed:
            raise PeerGone(f"endpoint {self.name} is closed")
        known = self._peers.get(peer.name)
        if known == peer:
            return
        if known is not None and known.public == peer.public and not known.address:
            self._peers[peer.name] = peer
            return self._link(peer)
        self.forget(peer.name)
        if self._keys is not None and self._names.setdefault(peer.public, peer.name) != peer.name:
            raise ValueError(f"{peer.name} has the key of another peer: every node needs keys of its own")
        self._peers[peer.name] = peer
        self._link(peer)

    def _link(self, peer: Peer) -> None:
        if self._around is not None and peer.address:
            self._links[peer.name] = Link(peer, self._around)

    def _met(self, name: str) -> None:
        """A peer greeted us, and will want an answer: on a far link a connection takes five round trips to make."""
        if link := self._links.get(name):
            link.prepare()

    def forget(self, name: str) -> None:
        """Lock a peer out; what was queued to it and what arrived from it and was not received yet is dropped."""
        if peer := self._peers.pop(name, None):
            self._names.pop(peer.public, None)
        if link := self._links.pop(name, None):
            link.close()
            self._emptied()
        if self._around is not None:
            self._desk.forget(name)
        for lane in self._inbox:
            kept = [arrival for arrival in lane if arrival.sender != name]
            lane.clear()
            lane.extend(kept)

    async def send(self, target: str, message: Message, *, priority: Priority = Priority.BULK, tag: int = 0) -> None:
        """Queue a message; waits while the target's queue of this priority is full, at least two messages long.

        The vector is lent, not copied: it must not change before it was acknowledged.
        """
        link = self._links.get(target)
        if link is None:
            raise PeerGone(f"{self.name} cannot send to {target!r}: it was forgotten or never met")
        parcel = Parcel(self._codec.encode(message), tag, self._clock())
        if parcel.size > self._limits.largest_message:
            raise ValueError(
                f"a message of {parcel.size} bytes exceeds largest_message, {self._limits.largest_message}"
            )
        await link.send(parcel, Priority(priority), self._limits.queued_bytes)

    def post(self, target: str, message: Message) -> None:
        """Queue a small control message without waiting; one to somebody who is not there is dropped."""
        link = self._links.get(target)
        if link is not None:
            link.put(Parcel(self._codec.encode(message), 0, self._clock()), Priority.CONTROL)

    async def receive(self) -> Arrival:
        """The next complete message from anyone, the most urgent first."""
        while True:
            for lane in self._inbox:
                if lane:
                    return lane.popleft()
            if self._closed:
                raise PeerGone(f"endpoint {self.name} is closed: nothing will arrive any more")
            await self._wait_for_arrival()

    async def _wait_for_arrival(self) -> None:
        reader = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        try:
            await reader
        except asyncio.CancelledError:
            self._wake_reader()  # the wake-up may have been meant for the next one
            raise

    def _arrived(self, arrival: Arrival, lane: Priority) -> None:
        self._inbox[lane].append(arrival)
        self._wake_reader()

    def _wake_reader(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                return reader.set_result(None)

    def _acknowledged(self, name: str, ack: Ack) -> None:
        if link := self._links.get(name):
            link.heed(ack)
            link.pump()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued was acknowledged; whether that happened in time."""
        for link in self._links.values():
            link.nudge()
        try:
            async with asyncio.timeout(timeout_s):
                while not self._closed and any(not link.outbox.empty for link in self._links.values()):
                    if self._flushed is None:
                        self._flushed = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._flushed)
        except TimeoutError:
            return False
        return not self._closed

    def _emptied(self) -> None:
        if self._flushed is not None:
            self._flushed.set_result(None)
            self._flushed = None

    def traffic(self) -> dict[str, Traffic]:
        """What went to and came from each peer in its present incarnation."""
        return {name: self._traffic(name, link) for name, link in self._links.items()}

    def _traffic(self, name: str, link: Link) -> Traffic:
        return Traffic(
            sent_bytes=link.sent_bytes,
            received_bytes=self._desk.received_bytes.get(name, 0),
            rate_bytes_per_s=link.window.rate,
            round_trip_s=link.window.round_trip,
            queued_bytes=link.outbox.waiting_bytes,
            in_flight_bytes=link.outbox.in_flight_bytes,
            connected=link.connected,
        )

    async def close(self) -> None:
        """Stop at once: what is not acknowledged may be lost (``flush`` first). Leaves no socket, task or thread."""
        if self._closed:
            return
        self._closed = True
        for name in list(self._peers):
            self.forget(name)
        if self._around is not None:
            self._ticking.cancel()
            self._desk.close()
            self._gate.close()
            self._around.context.term()
        self._refusals.close()
        self._emptied()
        while self._readers:
            self._wake_reader()

    def _tick(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        for link in self._links.values():
            link.ask()

    def _next_session(self) -> int:
        """Grows, also over restarts of this process, so that peers can tell a new session from a replayed one."""
        self._session = max(self._session + 1, time.time_ns())
        return self._session

    def _name_of(self, frames: Sequence[zmq.Frame]) -> str | None:
        """Who sent frames, as proven by CURVE; without keys, as the connection claims."""
        if self._keys is not None:
            return self._names.get(str(frames[1].get("User-Id")).encode())
        name = frames[0].bytes.partition(b":")[2].decode(errors="replace")
        return name if name in self._peers else None
