"""The listening side of an endpoint: whose frame is this, is it in order, what does its sender hear back."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

import zmq

from littoral.worlds.node import Message
from littoral.worlds.wire.frames import Ack, Chunk, Codec, Greeting, Priority, decode_head, encode_head
from littoral.worlds.wire.handshakes import Handshakes
from littoral.worlds.wire.intake import Account, Intake, Whole
from littoral.worlds.wire.limits import Limits
from littoral.worlds.wire.refusals import Refusals, Refused
from littoral.worlds.wire.tap import Tap


class Arrival:
    """A message that arrived. Its bytes count against its sender's credit until it is released."""

    __slots__ = ("_release", "arrived_at", "message", "sender", "sent_at", "size", "tag")

    def __init__(self, sender: str, whole: Whole, arrived_at: float, release: Callable[[], None]) -> None:
        self.sender, self.arrived_at = sender, arrived_at
        self.message: Message = whole.message
        self.tag, self.size, self.sent_at = whole.opening.tag, whole.opening.size, whole.opening.sent_at
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """The message was consumed; its sender may send as much again. A second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()


class Desk:
    """Takes frames in from all peers and answers each of them at most once per turn."""

    def __init__(
        self,
        router: zmq.Socket[bytes],
        name_of: Callable[[Sequence[zmq.Frame]], str | None],
        codec: Codec,
        limits: Limits,
        refusals: Refusals,
        clock: Callable[[], float],
        arrived: Callable[[Arrival, Priority], None],
    ) -> None:
        self._name_of, self._codec, self._limits = name_of, codec, limits
        self._refusals, self._clock, self._arrived = refusals, clock, arrived
        self.received_bytes: Counter[str] = Counter()
        self._accounts: dict[str, Account] = {}
        self._intakes: dict[str, Intake] = {}
        self._answers: dict[bytes, Intake | int] = {}  # by route: how far it got, or which session nobody knows
        self._handshakes = Handshakes(router, refusals)
        self._tap = Tap(router, self._take, self._answer)

    def _take(self, frames: Sequence[zmq.Frame]) -> None:
        name = self._name_of(frames) if len(frames) > 1 else None
        if name is None:
            return self._refusals.note(str(frames[-1].get("Peer-Address")), "unknown key")
        self.received_bytes[name] += sum(len(frame) for frame in frames[1:])
        try:
            self._read(name, frames[0].bytes, frames[1], frames[2:])
        except Refused as refusal:
            self._refusals.note(name, refusal.reason)

    def _read(self, name: str, route: bytes, head: zmq.Frame, pieces: Sequence[zmq.Frame]) -> None:
        match decode_head(head.buffer):
            case Greeting() as greeting:
                self._greeted(name, route, greeting)
                self._handshakes.greeted(int(head.get("__fd")))
            case Chunk() as chunk:
                self._chunk(name, route, chunk, pieces)

    def _greeted(self, name: str, route: bytes, greeting: Greeting) -> None:
        """From here on only this connection counts: what older ones still hold is stale."""
        intake = self._intakes.get(name)
        if intake is not None and greeting.session < intake.session:
            raise Refused("replayed")
        if intake is None or greeting.session > intake.session:
            account = self._accounts.setdefault(name, Account(self._limits))
            intake = self._intakes[name] = Intake(greeting.session, self._codec, account, self._limits)
        intake.route, intake.question = route, greeting.question
        self._answers[route] = intake

    def _chunk(self, name: str, route: bytes, chunk: Chunk, pieces: Sequence[zmq.Frame]) -> None:
        intake = self._intakes.get(name)
        if intake is None or chunk.session > intake.session:
            self._answers[route] = chunk.session
        elif chunk.session < intake.session:
            raise Refused("replayed")
        elif route == intake.route:
            self._answers[route] = intake
            if whole := intake.accept(chunk, pieces):
                self._deliver(name, intake, whole)

    def _deliver(self, name: str, intake: Intake, whole: Whole) -> None:
        account = self._accounts[name]

        def release() -> None:
            account.give(whole.lane, whole.opening.size)
            self._credit(name, account, whole.lane)

        self._arrived(Arrival(name, whole, self._clock(), release), whole.lane)

    def _credit(self, name: str, account: Account, lane: Priority) -> None:
        """Tell the peer of new credit, if it is still the same peer and worth telling."""
        intake = self._intakes.get(name)
        if intake is not None and self._accounts.get(name) is account and intake.owes_credit(lane):
            self._answers[intake.route] = intake
            self._tap.poke()

    def _answer(self) -> None:
        """One answer per connection; a route that is gone swallows it, and its successor will ask."""
        for route, about in self._answers.items():
            ack = about.ack() if isinstance(about, Intake) else Ack(about, 0, None, (0, 0, 0))
            with contextlib.suppress(zmq.Again):
                self._tap.send([route, encode_head(ack)])
        if self._answers:
            self._answers.clear()
            self._tap.poke()

    def forget(self, name: str) -> None:
        """Drop all state of a peer."""
        self._intakes.pop(name, None)
        self._accounts.pop(name, None)
        self.received_bytes.pop(name, None)

    def close(self) -> None:
        """Stop listening; the last acknowledgements have a moment to get out."""
        self._tap.close(linger_ms=100)
        self._handshakes.close()
