"""What stands on the wire: small typed heads, and messages taken apart into fields and a raw vector.

A sender writes ``Greeting``, ``Chunk`` and ``Nudge`` heads, a receiver answers with ``Ack``, on the connection they
came by or with the next chunk that goes the other way. A chunk's bytes follow its head as raw frames: the part of the
message's fields it carries (if any), then the part of the vector. Only the message kinds a codec was made with exist
for it: a name on the wire selects among them and never leads to an import.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

import msgspec

from littoral.worlds.node import Message
from littoral.worlds.wire.payload import Form, Length, lend, rebuild
from littoral.worlds.wire.refusals import Refused


class Priority(IntEnum):
    """Which of a peer's queues a message takes; the smaller goes first."""

    CONTROL = 0
    URGENT = 1
    BULK = 2


class Opening(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first chunk of a message says what is coming."""

    kind: Annotated[str, msgspec.Meta(max_length=200)]
    fields_bytes: Annotated[int, msgspec.Meta(ge=1)]
    vector_bytes: Length
    form: Form | None
    tag: int
    sent_at: float

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return self.fields_bytes + self.vector_bytes


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="greeting", forbid_unknown_fields=True):
    """Where do we stand? Sent when a connection is made, and again when an answer is overdue; each has its number."""

    session: Length
    question: Length


class Ack(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Chunks below ``received`` are here (None: this session is not known); each lane may reach its grant, in bytes.

    ``question`` is the last greeting that was read: whatever was sent before it and is not here got lost. The answer
    was held back for ``held_s`` after the last chunk arrived.
    """

    session: Length
    question: Length
    received: Length | None
    grants: tuple[Length, Length, Length]
    held_s: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="chunk", forbid_unknown_fields=True):
    """The next piece of the message that its lane is carrying; numbered without gaps within a session."""

    session: Length
    number: Length
    lane: Priority
    opening: Opening | None
    urgent: bool = True  # an answer is wanted at once; otherwise it may wait for something to travel with
    ack: Ack | None = None  # of what came the other way


class Nudge(msgspec.Struct, frozen=True, array_like=True, tag="nudge", forbid_unknown_fields=True):
    """The answer that you hold back is wanted now."""

    session: Length


Head = Greeting | Chunk | Nudge
_encode = msgspec.msgpack.Encoder().encode
_heads: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)
_acks = msgspec.msgpack.Decoder(Ack)
encode_head = _encode


def decode_head(data: Any) -> Head:
    """A head as a peer wrote it; anything else is refused as malformed."""
    try:
        return _heads.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("malformed") from error


def decode_ack(data: Any) -> Ack:
    """An acknowledgement as a peer wrote it; anything else is refused as malformed."""
    try:
        return _acks.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("malformed") from error


class Encoded(NamedTuple):
    """A message taken apart: kind, typed fields, form and bytes of its vector."""

    kind: str
    fields: bytes
    form: Form | None
    vector: memoryview


class _Kind:
    """One message kind and the strict record of all its fields but the vector."""

    def __init__(self, kind: type[Message]) -> None:
        fields = msgspec.structs.fields(kind)
        self.kind = kind
        self.names = [field.name for field in fields if field.name != "vector"]
        self.has_vector = len(self.names) < len(fields)
        types = [(field.name, field.type) for field in fields if field.name != "vector"]
        self.record = msgspec.defstruct(f"{kind.__name__}Fields", types, array_like=True, forbid_unknown_fields=True)
        self.decode = msgspec.msgpack.Decoder(self.record).decode

    def build(self, fields: Any, form: Form | None, vector: Any) -> Message:
        record = self.decode(fields)
        values = {name: getattr(record, name) for name in self.names}
        if self.has_vector:
            values["vector"] = rebuild(form, vector)
        return self.kind(**values)


class Codec:
    """The message kinds that may cross, by class name."""

    def __init__(self, kinds: Iterable[type[Message]]) -> None:
        self._kinds: dict[str, _Kind] = {}
        for kind in kinds:
            known = self._kinds.setdefault(kind.__name__, _Kind(kind))
            if known.kind is not kind:
                raise ValueError(f"two message kinds are called {kind.__name__!r}: rename one of them")

    def encode(self, message: Message) -> Encoded:
        """Take a message apart; its vector is lent, not copied."""
        known = self._kinds.get(type(message).__name__)
        if known is None or known.kind is not type(message):
            raise ValueError(f"{type(message).__name__} is not among the kinds of this codec: add it there")
        fields = _encode(known.record(*[getattr(message, name) for name in known.names]))
        form, vector = lend(getattr(message, "vector", None))
        return Encoded(type(message).__name__, fields, form, vector)

    def check(self, opening: Opening, largest: int) -> None:
        """Refuse what an opening announces: an unknown kind, too many bytes, a form that its bytes cannot have."""
        known = self._kinds.get(opening.kind)
        if known is None:
            raise Refused("wrong kind")
        if opening.size > largest:
            raise Refused("oversized")
        try:
            expected = 0 if opening.form is None else opening.form.nbytes
        except ValueError as error:
            raise Refused("malformed") from error
        if expected != opening.vector_bytes or (opening.form is not None and not known.has_vector):
            raise Refused("malformed")

    def decode(self, opening: Opening, fields: Any, vector: Any) -> Message:
        """The message of a checked opening; fields of wrong types are refused as malformed."""
        try:
            return self._kinds[opening.kind].build(fields, opening.form, vector)
        except (msgspec.DecodeError, ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise Refused("malformed") from error
