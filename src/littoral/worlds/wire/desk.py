"""The listening side of an endpoint: whose frame is this, is it in order, what does its sender hear back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

import zmq

from littoral.worlds.node import Message
from littoral.worlds.wire.frames import Ack, Chunk, Codec, Greeting, Nudge, Priority, decode_head, encode_head
from littoral.worlds.wire.handshakes import Handshakes
from littoral.worlds.wire.intake import Account, Intake, Whole
from littoral.worlds.wire.limits import Limits
from littoral.worlds.wire.refusals import Refusals, Refused
from littoral.worlds.wire.tap import Tap

HOLD_S = 0.1  # how long an answer that nobody waits for looks for a chunk to travel with


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
    """Takes frames in from all peers. Answers at most once per turn who waits for it; the others when it suits."""

    def __init__(
        self,
        router: zmq.Socket[bytes],
        name_of: Callable[[Sequence[zmq.Frame]], str | None],
        codec: Codec,
        limits: Limits,
        refusals: Refusals,
        clock: Callable[[], float],
        arrived: Callable[[Arrival, Priority], None],
        acknowledged: Callable[[str, Ack], None],
        met: Callable[[str], None],
    ) -> None:
        self._name_of, self._codec, self._limits = name_of, codec, limits
        self._refusals, self._clock = refusals, clock
        self._arrived, self._acknowledged, self._met = arrived, acknowledged, met
        self.received_bytes: Counter[str] = Counter()
        self._accounts: dict[str, Account] = {}
        self._intakes: dict[str, Intake] = {}
        self._answers: dict[bytes, Intake | int] = {}  # by route: how far it got, or which session nobody knows
        self._held: dict[str, Intake] = {}  # answers that wait for company
        self._holding: asyncio.TimerHandle | None = None
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
                if chunk.ack is not None:
                    self._acknowledged(name, chunk.ack)
                self._chunk(name, route, chunk, pieces)
            case Nudge(session=session):
                intake = self._intakes.get(name)
                if intake is not None and intake.session == session and route == intake.route:
                    self._answers[route] = intake

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
        self._met(name)

    def _chunk(self, name: str, route: bytes, chunk: Chunk, pieces: Sequence[zmq.Frame]) -> None:
        intake = self._intakes.get(name)
        if intake is None or chunk.session > intake.session:
            self._answers[route] = chunk.session
        elif chunk.session < intake.session:
            raise Refused("replayed")
        elif route == intake.route:
            intake.heard_at = self._clock()
            if chunk.urgent:
                self._answers[route] = intake
            else:
                self._hold(name, intake)
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
        if self._answers:
            answers, self._answers = self._answers, {}
            for route, about in answers.items():
                ack = about.ack(self._clock()) if isinstance(about, Intake) else Ack(about, 0, None, (0, 0, 0))
                with contextlib.suppress(zmq.Again):
                    self._tap.send([route, encode_head(ack)])

    def _hold(self, name: str, intake: Intake) -> None:
        self._held[name] = intake
        if self._holding is None:
            self._holding = asyncio.get_running_loop().call_later(HOLD_S, self._let_go)

    def _let_go(self) -> None:
        """Nothing came along in time."""
        self._holding = None
        self._answers.update({intake.route: intake for intake in self._held.values()})
        self._held.clear()
        self._answer()

    def take_along(self, name: str) -> Ack | None:
        """The answer that is held back for a peer to which something is about to be sent anyway."""
        intake = self._held.pop(name, None)
        return None if intake is None else intake.ack(self._clock())

    def answer_again(self, name: str) -> None:
        """An answer that travelled with a chunk may have got lost."""
        if intake := self._intakes.get(name):
            self._hold(name, intake)

    def forget(self, name: str) -> None:
        """Drop all state of a peer; should it be met again, it need not repeat what arrived."""
        if intake := self._held.pop(name, None):
            self._answers[intake.route] = intake
            self._answer()
        self._intakes.pop(name, None)
        self._accounts.pop(name, None)
        self.received_bytes.pop(name, None)

    def close(self) -> None:
        """Stop listening; the last acknowledgements have a moment to get out."""
        if self._holding is not None:
            self._holding.cancel()
            self._let_go()
        self._tap.close(linger_ms=100)
        self._handshakes.close()
