"""The receiver's half of the protocol for one peer, without sockets: numbers, messages put together, credit.

Memory is bounded by what is granted: one partial message per lane, and whole messages that nobody has consumed yet up
to each lane's share of ``unread_bytes``. A message larger than its share passes when the lane holds nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from littoral.worlds.node import Message
from littoral.worlds.wire.frames import Ack, Chunk, Codec, Opening, Priority
from littoral.worlds.wire.limits import Limits
from littoral.worlds.wire.refusals import Refused

_MESSAGE_COST = 512  # what an empty message costs, roughly


class Whole(NamedTuple):
    """A message that arrived completely."""

    message: Message
    lane: Priority
    opening: Opening


class Partial:
    """A message that is being put together. One that was refused is counted through to its end and not kept."""

    def __init__(self, opening: Opening, keep: bool) -> None:
        self.opening, self.keep, self.got = opening, keep, 0
        self.fields: Any = b""
        self.vector: Any = b""

    @property
    def complete(self) -> bool:
        """Whether the last byte is here."""
        return self.got == self.opening.size

    def split(self, pieces: Sequence[Any]) -> tuple[Any, Any]:
        """Which of a chunk's pieces is fields and which is vector; refuses what does not fit."""
        sizes = [len(piece) for piece in pieces]
        fields_left = max(0, self.opening.fields_bytes - self.got)
        if not 1 <= len(pieces) <= 2 or 0 in sizes or self.got + sum(sizes) > self.opening.size:
            raise Refused("malformed")
        if len(pieces) == 2 and (fields_left == 0 or sizes[0] != fields_left):
            raise Refused("malformed")
        if len(pieces) == 1 and 0 < fields_left < sizes[0]:
            raise Refused("malformed")
        return (pieces[0], pieces[1] if len(pieces) == 2 else b"") if fields_left else (b"", pieces[0])

    def add(self, fields: Any, vector: Any) -> None:
        """The next bytes. What comes whole in one chunk is kept as it came."""
        start, edge = self.got, self.opening.fields_bytes
        self.got += len(fields) + len(vector)
        if self.keep:
            self.fields = _joined(self.fields, fields, start, edge)
            self.vector = _joined(self.vector, vector, max(0, start - edge), self.opening.vector_bytes)


def _joined(whole: Any, piece: Any, start: int, size: int) -> Any:
    """``whole`` with ``piece`` at ``start``. Its pages are only touched, and so only cost memory, as bytes arrive."""
    if not len(piece):
        return whole
    if len(piece) == size:
        return piece
    if not len(whole):
        whole = np.empty(size, np.uint8)
    whole[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
    return whole


class Account:
    """What one peer's unconsumed messages hold, lane by lane. Outlives its sessions: a new one brings no new credit."""

    def __init__(self, limits: Limits) -> None:
        self.shares = limits.shares
        self.held = {priority: 0 for priority in Priority}
        self.messages = {priority: 0 for priority in Priority}

    def take(self, lane: Priority, size: int) -> None:
        """A whole message waits to be consumed."""
        self.held[lane] += size + _MESSAGE_COST
        self.messages[lane] += 1

    def give(self, lane: Priority, size: int) -> None:
        """It was."""
        self.held[lane] -= size + _MESSAGE_COST
        self.messages[lane] -= 1

    def room(self, lane: Priority, partial: int) -> int:
        """Bytes the peer may send beyond what it has sent, with ``partial`` bytes of an unfinished message here."""
        room = self.shares[lane] - self.held[lane] - partial
        least = 0 if self.messages[lane] else self.shares[lane] // 4  # a large message passes when it is alone
        return max(room, least)


class Intake:
    """One session of one peer."""

    def __init__(self, session: int, codec: Codec, account: Account, limits: Limits) -> None:
        self.session, self.question, self.route = session, 0, b""
        self.heard_at = 0.0  # when the last chunk came
        self._codec, self._account, self._limits = codec, account, limits
        self._number = 0
        self._partials: dict[Priority, Partial] = {}
        self._received = {priority: 0 for priority in Priority}
        self._granted = {priority: 0 for priority in Priority}

    def accept(self, chunk: Chunk, pieces: Sequence[Any]) -> Whole | None:
        """Take the next chunk in; gives the message that it completes, if any. Raises Refused."""
        if chunk.number != self._number:
            raise Refused("replayed" if chunk.number < self._number else "malformed")
        lane, size = chunk.lane, sum(len(piece) for piece in pieces)
        if self._received[lane] + size > self._granted[lane]:
            raise Refused("over credit")
        partial, refusal = self._partial(chunk)
        fields, vector = partial.split(pieces)
        self._number += 1
        self._received[lane] += size
        self._partials[lane] = partial
        partial.add(fields, vector)
        if partial.complete:
            del self._partials[lane]
        if refusal is not None:
            raise refusal
        return self._finish(partial, lane) if partial.complete and partial.keep else None

    def _partial(self, chunk: Chunk) -> tuple[Partial, Refused | None]:
        """The lane's message, or a new one if the chunk opens it; one that is refused is still counted through."""
        partial = self._partials.get(chunk.lane)
        if (partial is None) != (chunk.opening is not None):
            raise Refused("malformed")
        if partial is not None:
            return partial, None
        assert chunk.opening is not None
        try:
            self._codec.check(chunk.opening, self._limits.largest_message)
        except Refused as refusal:
            return Partial(chunk.opening, keep=False), refusal
        return Partial(chunk.opening, keep=True), None

    def _finish(self, partial: Partial, lane: Priority) -> Whole:
        message = self._codec.decode(partial.opening, partial.fields, partial.vector)
        self._account.take(lane, partial.opening.size)
        return Whole(message, lane, partial.opening)

    def ack(self, now: float) -> Ack:
        """What to answer: how far we got, and how far each lane may go."""
        for lane in Priority:
            self._granted[lane] = max(self._granted[lane], self._received[lane] + self._room(lane))
        control, urgent, bulk = self._granted.values()
        return Ack(self.session, self.question, self._number, (control, urgent, bulk), max(0.0, now - self.heard_at))

    def _room(self, lane: Priority) -> int:
        partial = self._partials.get(lane)
        return self._account.room(lane, partial.got if partial is not None and partial.keep else 0)

    def owes_credit(self, lane: Priority) -> bool:
        """Whether enough was consumed since the last answer that the peer should hear of it, or it has little left."""
        gain = self._received[lane] + self._room(lane) - self._granted[lane]
        quarter = self._account.shares[lane] // 4
        has_little = self._granted[lane] - self._received[lane] < quarter
        return gain >= quarter or (gain > 0 and has_little and self._account.messages[lane] == 0)
