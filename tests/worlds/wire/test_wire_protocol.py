"""Sender's and receiver's halves against each other, without sockets, over connections that lose everything."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wiring import CODEC, Note, Parcelled

from littoral.worlds.wire.frames import Chunk, Opening, Priority
from littoral.worlds.wire.intake import Account, Intake
from littoral.worlds.wire.limits import Limits
from littoral.worlds.wire.outbox import Outbox, Parcel
from littoral.worlds.wire.refusals import Refused


class Conversation:
    """An outbox and an intake, and the chunks under way between them."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits, self.account = limits, Account(limits)
        self.outbox, self.intake = Outbox(1), Intake(1, CODEC, self.account, limits)
        self.wire: list[tuple[Chunk, list[memoryview]]] = []
        self.arrived: list[tuple[Priority, Any]] = []
        self.unread: list[tuple[Priority, int]] = []
        self.connect()

    def connect(self) -> None:
        """A new connection: what was under way is lost."""
        self.wire.clear()
        ack = self.intake.ack(0.0)
        assert ack.received is not None
        assert self.outbox.resume(ack.received, ack.grants)

    def put(self, message: Any, priority: Priority = Priority.BULK) -> None:
        self.outbox.put(Parcel(CODEC.encode(message), 0, 0.0), priority)

    def cut(self, size: int) -> bool:
        priority = self.outbox.ready(size)
        if priority is not None:
            shipment, pieces = self.outbox.cut(priority, size, 0.0)
            self.wire.append((shipment.chunk, list(pieces)))
        return priority is not None

    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            chunk, pieces = self.wire.pop(0)
            if whole := self.intake.accept(chunk, [bytes(piece) for piece in pieces]):
                self.arrived.append((whole.lane, whole.message))
                self.unread.append((whole.lane, whole.opening.size))

    def consume(self) -> None:
        for lane, size in self.unread:
            self.account.give(lane, size)
        self.unread.clear()

    def answer(self) -> None:
        ack = self.intake.ack(0.0)
        assert ack.received is not None
        self.outbox.acknowledge(ack.received, ack.grants)

    def finish(self, size: int = 1000) -> None:
        idle = 0
        while not self.outbox.empty:
            idle = 0 if self.cut(size) or self.wire else idle + 1
            self.deliver(1)
            self.consume()
            self.answer()
            assert idle < 3, "stuck"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_lost_every_message_arrives_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    talk = Conversation(Limits(unread_bytes=rng.choice([8192, 30_000, 10**6])))
    sent: dict[Priority, list[Any]] = {priority: [] for priority in Priority}
    for step in range(60):
        match rng.choice(["put", "put", "cut", "cut", "deliver", "answer", "consume", "break"]):
            case "put":
                priority = rng.choice(list(Priority))
                message = Parcelled(step, rng.randbytes(rng.choice([0, 10, 2000, 9000])))
                sent[priority].append(message)
                talk.put(message, priority)
            case "cut":
                talk.cut(rng.choice([1, 100, 7000, 10**6]))
            case "deliver":
                talk.deliver(rng.randrange(5))
            case "answer":
                talk.answer()
            case "consume":
                talk.consume()
            case "break":
                talk.connect()
    talk.finish(rng.choice([500, 7000]))
    for priority in Priority:
        assert [message for lane, message in talk.arrived if lane is priority] == sent[priority]


def test_an_urgent_message_overtakes_between_two_chunks() -> None:
    talk = Conversation()
    talk.put(Parcelled(1, bytes(10_000)))
    talk.cut(1000)
    talk.put(Note(2), Priority.URGENT)
    talk.put(Note(3), Priority.CONTROL)
    talk.finish()
    assert [lane for lane, _ in talk.arrived] == [Priority.CONTROL, Priority.URGENT, Priority.BULK]


def test_a_vector_that_fits_goes_as_one_frame_of_its_own() -> None:
    talk = Conversation()
    talk.put(Parcelled(1, bytes(8 * 2**20)))
    talk.cut(8 * 2**20)
    ((_, pieces),) = talk.wire
    assert [len(piece) for piece in pieces][1:] == [8 * 2**20]


def test_after_a_break_chunks_are_cut_anew() -> None:
    talk = Conversation()
    talk.put(Parcelled(1, bytes(100_000)))
    talk.cut(50_000)
    talk.cut(50_000)
    talk.deliver(1)
    talk.connect()
    talk.cut(1000)
    ((chunk, pieces),) = talk.wire
    assert (chunk.number, sum(map(len, pieces)), chunk.opening) == (1, 1000, None)


def test_unread_messages_use_up_the_credit_and_consuming_gives_it_back() -> None:
    talk = Conversation(Limits(unread_bytes=160_000))  # of which bulk has 120,000
    for number in range(10):
        talk.put(Parcelled(number, bytes(50_000)))
    while talk.cut(10_000) or talk.wire:
        talk.deliver(10)
        talk.answer()
    assert len(talk.arrived) == 2
    assert talk.account.held[Priority.BULK] <= 120_000
    talk.put(Note(1), Priority.CONTROL)
    assert talk.cut(10_000), "unread bulk keeps a control message out"
    talk.finish()
    assert len(talk.arrived) == 11


def test_a_message_larger_than_the_credit_passes_when_it_is_alone() -> None:
    talk = Conversation(Limits(unread_bytes=16_000))
    talk.put(Parcelled(1, bytes(500_000)))
    talk.finish(4000)
    assert len(talk.arrived) == 1


def test_news_of_credit_is_worth_sending_only_in_quarters() -> None:
    talk = Conversation(Limits(unread_bytes=160_000))
    for number in range(10):
        talk.put(Parcelled(number, bytes(11_000)))
        talk.cut(20_000)
    talk.deliver(10)
    talk.answer()
    told = []
    for lane, size in talk.unread:
        talk.account.give(lane, size)
        told.append(talk.intake.owes_credit(Priority.BULK))
    assert told[:2] == [False, False]
    assert told[3] and told[-1]


def test_a_peer_that_forgot_us_is_told_everything_that_is_not_done() -> None:
    talk = Conversation()
    talk.put(Parcelled(1, bytes(1000)))
    talk.put(Parcelled(2, bytes(5000)))
    for _ in range(3):
        talk.cut(1100)
    talk.deliver(2)
    talk.answer()
    talk.intake = Intake(1, CODEC, talk.account, talk.limits)
    ack = talk.intake.ack(0.0)
    assert ack.received == 0
    assert not talk.outbox.resume(0, ack.grants)
    talk.outbox.restart(2)
    talk.intake = Intake(2, CODEC, talk.account, talk.limits)
    talk.connect()
    talk.finish()
    assert [message.step for _, message in talk.arrived] == [1, 2]


def opened(talk: Conversation, message: Any = Note(1)) -> tuple[Chunk, list[bytes]]:
    encoded = CODEC.encode(message)
    pieces = [bytes(piece) for piece in (encoded.fields, encoded.vector) if len(piece)]
    opening = Opening(encoded.kind, len(encoded.fields), len(encoded.vector), encoded.form, 0, 0.0)
    return Chunk(1, 0, Priority.BULK, opening), pieces


def refused(talk: Conversation, chunk: Chunk, pieces: list[bytes]) -> str:
    with pytest.raises(Refused) as caught:
        talk.intake.accept(chunk, pieces)
    return caught.value.reason


def test_the_same_chunk_twice_is_a_replay() -> None:
    talk = Conversation()
    chunk, pieces = opened(talk)
    assert talk.intake.accept(chunk, pieces)
    assert refused(talk, chunk, pieces) == "replayed"
    assert talk.intake.ack(0.0).received == 1


@pytest.mark.parametrize("number", [1, 7])
def test_a_gap_is_malformed(number: int) -> None:
    talk = Conversation()
    chunk, pieces = opened(talk)
    assert refused(talk, Chunk(1, number, chunk.lane, chunk.opening), pieces) == "malformed"


def test_bytes_that_do_not_fit_what_was_announced_are_malformed() -> None:
    talk = Conversation()
    chunk, pieces = opened(talk, Parcelled(1, bytes(100)))
    wrong = [[], [b""], [*pieces, b"x"], [pieces[0] + b"x"], [pieces[0], b"", pieces[1]], [pieces[0][:-1], pieces[1]]]
    for other in [*wrong, [pieces[0], pieces[1] + b"x"]]:
        assert refused(talk, chunk, other) == "malformed"
    assert refused(talk, Chunk(1, 0, Priority.BULK, None), pieces) == "malformed"
    assert talk.intake.accept(chunk, pieces)


def test_an_opening_inside_a_message_is_malformed() -> None:
    talk = Conversation()
    chunk, pieces = opened(talk, Parcelled(1, bytes(100)))
    talk.intake.accept(chunk, pieces[:1])
    assert refused(talk, Chunk(1, 1, Priority.BULK, chunk.opening), pieces[1:]) == "malformed"


def test_more_than_was_granted_is_refused() -> None:
    talk = Conversation(Limits(unread_bytes=1600))
    chunk, pieces = opened(talk, Parcelled(1, bytes(5000)))
    assert refused(talk, chunk, pieces) == "over credit"


def test_what_is_refused_by_its_opening_costs_no_memory_and_stops_nothing() -> None:
    talk = Conversation(Limits(largest_message=10_000))
    talk.put(Parcelled(1, bytes(50_000)))
    talk.put(Parcelled(2, b"fine"))
    talk.cut(20_000)
    chunk, pieces = talk.wire.pop(0)
    assert refused(talk, chunk, [bytes(piece) for piece in pieces]) == "oversized"
    talk.answer()
    talk.finish(20_000)
    assert [message.step for _, message in talk.arrived] == [2]
    assert talk.account.held[Priority.BULK] == 0


def test_a_new_session_brings_no_new_credit() -> None:
    talk = Conversation(Limits(unread_bytes=16_000))
    talk.put(Parcelled(1, bytes(11_000)))
    talk.cut(12_000)
    talk.deliver(1)
    assert sum(Intake(2, CODEC, talk.account, talk.limits).ack(0.0).grants) < 16_000 - 11_000 + 10
