"""One way to one peer: a socket that is made anew for every connection, and the outbox that survives them all.

The first message makes the connection, or the peer's greeting, for it will want an answer. A connection begins with a
greeting; the peer's answer says how far it got, and sending goes on from there. Nothing is given to the socket before
that, so no chunk is lost in a connection that ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from littoral.worlds.wire.frames import Ack, Chunk, Greeting, Nudge, Priority, decode_ack, encode_head
from littoral.worlds.wire.gate import client_socket
from littoral.worlds.wire.keys import KeyPair
from littoral.worlds.wire.outbox import Outbox, Parcel
from littoral.worlds.wire.refusals import Refusals, Refused
from littoral.worlds.wire.tap import Tap, monitor
from littoral.worlds.wire.window import Window

# A peer that does not know our key yet refuses us, after which libzmq never tries again by itself.
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _REFUSED
_AGAIN_S = 0.1
_CONTROL_EXTRA = 65536  # control messages may go beyond the window by this much, not to wait for an acknowledgement
_ASK_AFTER_S = 1.0
_BURST = 64  # messages queued before others on the loop get their turn


class Peer(msgspec.Struct, frozen=True):
    """Another endpoint: its name in the run, where it listens, and its public key."""

    name: str
    address: str
    public: bytes


class PeerGone(Exception):
    """The peer was forgotten, replaced by a new incarnation, or never met; or this endpoint was closed."""


class Surroundings(NamedTuple):
    """What every link of an endpoint shares."""

    context: zmq.Context[zmq.Socket[bytes]]
    name: str
    keys: KeyPair | None
    clock: Callable[[], float]
    refusals: Refusals
    next_session: Callable[[], int]
    emptied: Callable[[], None]
    take_along: Callable[[str], Ack | None]  # an answer to the peer that is due anyway
    answer_again: Callable[[str], None]


class Link:
    """Sends to one incarnation of one peer until it is closed."""

    def __init__(self, peer: Peer, around: Surroundings) -> None:
        self.peer, self._around = peer, around
        self.outbox, self.window = Outbox(around.next_session()), Window()
        self.connected = False  # encrypted and let in
        self.sent_bytes = 0
        self._greeted = False  # and the peer said where we stand
        self._question = self._burst = 0
        self._asked_at = self._heard_at = self._sent_at = 0.0
        self._turns = {priority: asyncio.Lock() for priority in Priority}
        self._room: asyncio.Future[None] | None = None
        self._closed = False
        self._taps: tuple[Tap, ...] = ()
        self._again: asyncio.TimerHandle | None = None  # the next attempt to connect
        self._paced: asyncio.TimerHandle | None = None  # the next chunk

    def _connect(self) -> None:
        self._disconnect()
        around = self._around
        label = f"{around.next_session()}:{around.name}".encode()
        socket = client_socket(around.context, around.keys, self.peer.public, label)
        self._tap = Tap(socket, self._on_ack, self.pump)
        self._taps = (self._tap, Tap(monitor(socket, _EVENTS), self._on_event))
        socket.connect(self.peer.address)

    def _on_event(self, frames: Sequence[zmq.Frame]) -> None:
        event = parse_monitor_message([frame.bytes for frame in frames])["event"]
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.connected = True
            self.window.restart()
            self._greet()
        elif event != zmq.EVENT_DISCONNECTED:
            self._disconnect()
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._connect)
        elif self.connected:
            self._connect()

    def _disconnect(self) -> None:
        self.connected = self._greeted = False
        for timer in (self._again, self._paced):
            if timer is not None:
                timer.cancel()
        self._again = self._paced = None
        for tap in self._taps:
            tap.close()

    def _greet(self) -> None:
        """Ask where we stand. Until the answer nothing is sent: it tells what of all that was sent before got lost."""
        self._greeted = False
        self._question += 1
        self._asked_at = self._around.clock()
        self._ship([encode_head(Greeting(self.outbox.session, self._question))])

    def ask(self) -> None:
        """Greet again when an answer is overdue: one that got lost must not stop the link."""
        waiting = not self._greeted or not self.outbox.empty
        silent_s = self._around.clock() - max(self._sent_at, self._heard_at)
        if self.connected and waiting and silent_s > _ASK_AFTER_S:
            self._greet()

    def _ship(self, frames: Sequence[bytes | memoryview]) -> None:
        self._tap.send(frames)
        self._sent_at = self._around.clock()
        self.sent_bytes += sum(len(frame) for frame in frames)

    def _on_ack(self, frames: Sequence[zmq.Frame]) -> None:
        try:
            ack = decode_ack(frames[0].buffer)
        except Refused as refusal:
            return self._around.refusals.note(self.peer.name, refusal.reason)
        self.heed(ack)

    def heed(self, ack: Ack) -> None:
        """The peer told us how far it got."""
        if ack.session != self.outbox.session:
            return
        self._heard_at = self._around.clock()
        if ack.received is None:
            self._start_over()
        elif self._greeted:
            self._progress(ack.received, ack)
        elif ack.question == self._question:
            self._resume(ack.received, ack.grants)

    def _progress(self, received: int, ack: Ack) -> None:
        if news := self.outbox.acknowledge(received, ack.grants):
            size, left_at = news
            self.window.acknowledged(size, left_at, max(left_at, self._heard_at - ack.held_s))
            self._make_room()

    def _resume(self, received: int, grants: Sequence[int]) -> None:
        if not self.outbox.resume(received, grants):
            return self._start_over()
        self._greeted = True
        self.window.forget_in_flight()
        self.window.heard(self._heard_at - self._asked_at, self._heard_at)
        self._around.answer_again(self.peer.name)
        self._make_room()

    def _start_over(self) -> None:
        """The peer has no memory of us: it was told to forget us, and then to meet us again."""
        self.outbox.restart(self._around.next_session())
        self._greet()

    def pump(self) -> None:
        """Send what window and credits allow, the most urgent first."""
        while self._greeted:
            wanted = self.window.chunk
            priority = self.outbox.ready(wanted)
            if priority is None:
                return self.window.pause()
            now = self._around.clock()
            if not self._may_go(priority, now) or not self._tap.writable:
                return
            shipment, pieces = self.outbox.cut(priority, wanted, now)
            self.window.sent(shipment.size, now)
            self._ship([encode_head(self._addressed(shipment.chunk)), *pieces])

    def _addressed(self, chunk: Chunk) -> Chunk:
        """The chunk as it leaves: with an answer that is due anyway, and a request for one before we have to wait."""
        urgent = self.window.wants_news or self.outbox.lanes[chunk.lane].wants_news
        ack = self._around.take_along(self.peer.name)
        return Chunk(chunk.session, chunk.number, chunk.lane, chunk.opening, urgent, ack)

    def nudge(self) -> None:
        """Somebody waits until everything was acknowledged."""
        if self._greeted and self.outbox.under_way:
            self._ship([encode_head(Nudge(self.outbox.session))])

    def _may_go(self, priority: Priority, now: float) -> bool:
        if priority is Priority.CONTROL and self.window.in_flight < self.window.limit + _CONTROL_EXTRA:
            return True
        if self.window.in_flight >= self.window.limit:
            return False
        wait_s = self.window.pace(now)
        if wait_s and self._paced is None:
            self._paced = asyncio.get_running_loop().call_later(wait_s, self._go_on, now + wait_s)
        return not wait_s

    def _go_on(self, due: float) -> None:
        self._paced = None
        self.window.rang(self._around.clock() - due)
        self.pump()

    async def send(self, parcel: Parcel, priority: Priority, most_queued: int) -> None:
        """Queue a message in its lane, after those who asked before and once there is room."""
        lane, turn = self.outbox.lanes[priority], self._turns[priority]
        if not self._closed and lane.held <= most_queued and not turn.locked():
            self.put(parcel, priority)
        else:
            async with turn:
                while not self._closed and lane.held > most_queued and len(lane) >= 2:
                    await self._wait_for_room()
                if self._closed:
                    raise PeerGone(f"{self.peer.name} is gone: nothing can be sent to it any more")
                self.put(parcel, priority)
        self._burst += 1
        if self._burst % _BURST == 0:
            await asyncio.sleep(0)

    def put(self, parcel: Parcel, priority: Priority) -> None:
        """Queue a message whether or not there is room."""
        self.outbox.put(parcel, priority)
        self.prepare()
        self.pump()

    def prepare(self) -> None:
        """Begin to connect, unless that was done before."""
        if not self._taps and not self._closed:
            self._connect()

    async def _wait_for_room(self) -> None:
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._room)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set_result(None)
            self._room = None
        if self.outbox.empty:
            self._around.emptied()

    def close(self) -> None:
        """Drop the queue and the connection; whoever waits to send learns that the peer is gone."""
        if not self._closed:
            self._closed = True
            self._disconnect()
            self.outbox = Outbox(0)
            self._make_room()
