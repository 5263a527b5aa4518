"""The sender's half of the protocol for one peer, without sockets: lanes, chunks, credits, acknowledgements.

Chunks are numbered without gaps within a session. What was sent stays here until it was acknowledged; after a broken
connection the peer says how far it got and each lane goes on from there, cut anew, so that a link that has become
slow is not offered chunks made for a fast one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from littoral.worlds.wire.frames import Chunk, Encoded, Opening, Priority

_PARCEL_COST = 512  # what an empty message costs, roughly: bytes alone would let a million of them in


class Parcel:
    """One message on its way: how much of it was cut into chunks, and how much of that arrived."""

    __slots__ = ("acked", "cut", "fields", "opening", "size", "vector")

    def __init__(self, encoded: Encoded, tag: int, sent_at: float) -> None:
        self.fields, self.vector = memoryview(encoded.fields), encoded.vector
        self.opening = Opening(encoded.kind, len(self.fields), len(self.vector), encoded.form, tag, sent_at)
        self.size = self.opening.size
        self.cut = self.acked = 0

    def take(self, wanted: int, credit: int) -> list[memoryview]:
        """The next ``wanted`` bytes; a short rest comes along, because a chunk of its own would cost more."""
        left = self.size - self.cut
        size = min(credit, left if left <= wanted + wanted // 8 else wanted)
        start, self.cut = self.cut, self.cut + size
        edge = len(self.fields)
        pieces = (self.fields[start : self.cut], self.vector[max(0, start - edge) : max(0, self.cut - edge)])
        return [piece for piece in pieces if len(piece)]


class Lane:
    """Messages of one priority, in order: those wholly sent, then those (perhaps partly) still to send."""

    def __init__(self) -> None:
        self.sent: deque[Parcel] = deque()
        self.waiting: deque[Parcel] = deque()
        self.held = 0  # bytes of all of them, and what each costs besides
        self.used = self.granted = 0  # bytes sent in this session, and how far they may go
        self.span = 0  # the most credit the peer ever gave: its whole allowance

    def __len__(self) -> int:
        return len(self.sent) + len(self.waiting)

    def ready(self, wanted: int) -> bool:
        """Whether there is something to send and enough credit that it is worth cutting a chunk."""
        if not self.waiting:
            return False
        parcel = self.waiting[0]
        return self.granted - self.used >= min(wanted, parcel.size - parcel.cut, max(1, self.span // 4))

    @property
    def wants_news(self) -> bool:
        """Whether more stands here, or half of the credit is used."""
        return bool(self.waiting) or 2 * (self.granted - self.used) < self.span

    def put(self, parcel: Parcel) -> None:
        """One more, at the end."""
        self.waiting.append(parcel)
        self.held += parcel.size + _PARCEL_COST

    def cut(self, wanted: int) -> tuple[Parcel, list[memoryview], int]:
        """The next bytes of the first message that is not wholly sent."""
        parcel = self.waiting[0]
        before = parcel.cut
        pieces = parcel.take(wanted, self.granted - self.used)
        self.used += parcel.cut - before
        if parcel.cut == parcel.size:
            self.sent.append(self.waiting.popleft())
        return parcel, pieces, parcel.cut - before

    def arrived(self, parcel: Parcel, size: int) -> None:
        """The peer has ``size`` more bytes of a message; with the last of them it is done."""
        parcel.acked += size
        if parcel.acked == parcel.size:
            self.sent.popleft()
            self.held -= parcel.size + _PARCEL_COST

    def grant(self, granted: int) -> None:
        """The peer's allowance; never taken back."""
        self.granted = max(self.granted, granted)
        self.span = max(self.span, self.granted - self.used)

    def rewind(self, *, to_start: bool = False) -> None:
        """Everything that was cut and not acknowledged is still to send; to start: even what was acknowledged."""
        self.waiting.extendleft(reversed(self.sent))
        self.sent.clear()
        for parcel in self.waiting:
            if parcel.cut == 0:
                break
            parcel.acked = 0 if to_start else parcel.acked
            self.used -= parcel.cut - parcel.acked
            parcel.cut = parcel.acked
        if to_start:
            self.used = self.granted = 0


class Shipment(NamedTuple):
    """A chunk under way."""

    chunk: Chunk
    parcel: Parcel
    size: int
    left_at: float


class Outbox:
    """Everything on its way to one peer."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.lanes = {priority: Lane() for priority in Priority}
        self.under_way: deque[Shipment] = deque()
        self._number = self._acknowledged = 0

    @property
    def empty(self) -> bool:
        """Whether everything was acknowledged."""
        return not any(self.lanes.values())

    @property
    def waiting_bytes(self) -> int:
        """Bytes not yet sent."""
        return sum(parcel.size - parcel.cut for lane in self.lanes.values() for parcel in lane.waiting)

    @property
    def in_flight_bytes(self) -> int:
        """Bytes sent and not yet acknowledged."""
        return sum(shipment.size for shipment in self.under_way)

    def put(self, parcel: Parcel, priority: Priority) -> None:
        """Queue a message."""
        self.lanes[priority].put(parcel)

    def ready(self, wanted: int) -> Priority | None:
        """The most urgent lane that has something to send and credit for it."""
        return next((priority for priority, lane in self.lanes.items() if lane.ready(wanted)), None)

    def cut(self, priority: Priority, wanted: int, now: float) -> tuple[Shipment, Sequence[memoryview]]:
        """The next chunk of a lane that is ready."""
        lane = self.lanes[priority]
        opening = lane.waiting[0].opening if lane.waiting[0].cut == 0 else None
        parcel, pieces, size = lane.cut(wanted)
        shipment = Shipment(Chunk(self.session, self._number, priority, opening), parcel, size, now)
        self.under_way.append(shipment)
        self._number += 1
        return shipment, pieces

    def acknowledge(self, received: int, grants: Sequence[int]) -> tuple[int, float] | None:
        """The peer has all chunks below ``received``. Gives the bytes that this is news of, and when the last left."""
        self._acknowledged = max(self._acknowledged, received)
        size, left_at = 0, None
        while self.under_way and self.under_way[0].chunk.number < received:
            shipment = self.under_way.popleft()
            self.lanes[shipment.chunk.lane].arrived(shipment.parcel, shipment.size)
            size, left_at = size + shipment.size, shipment.left_at
        for lane, granted in zip(self.lanes.values(), grants, strict=True):
            lane.grant(granted)
        return None if left_at is None else (size, left_at)

    def resume(self, received: int, grants: Sequence[int]) -> bool:
        """Go on exactly where the peer says it is; False when it has lost what it once had."""
        if received < self._acknowledged:
            return False
        self.acknowledge(received, grants)
        self.under_way.clear()
        self._number = received
        for lane in self.lanes.values():
            lane.rewind()
        return True

    def restart(self, session: int) -> None:
        """The peer knows nothing of this session: begin another with every message that is not wholly acknowledged."""
        self.session, self._number, self._acknowledged = session, 0, 0
        self.under_way.clear()
        for lane in self.lanes.values():
            lane.rewind(to_start=True)
