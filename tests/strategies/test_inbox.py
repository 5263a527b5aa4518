"""The inbox keeps what neighbours sent until it is wanted, and no longer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.strategies.inbox import Inbox
from littoral.worlds.node import Message, Received


class Note(Message, frozen=True):
    round: int


class Post:
    """A node to which messages come one by one: ``here`` already, the rest when waited for."""

    def __init__(self, mail: list[tuple[str, int]], here: int) -> None:
        received = [Received(sender, Note(number)) for sender, number in mail]
        self.here, self.coming = received[:here], deque(received[here:])

    async def arrived(self, *_: Any) -> list[Received]:
        here, self.here = self.here, []
        return here

    async def receive(self, *_: Any, sender: str | None = None) -> Received:
        if not self.coming:
            raise TimeoutError
        return self.coming.popleft()


def ask(inbox: Inbox, *arguments: Any, newest: bool = False) -> dict[str, int] | None:
    """The rounds of what it answers; None if it would wait for ever."""
    try:
        found = asyncio.run((inbox.newest if newest else inbox.of_round)(*arguments))
    except TimeoutError:
        return None
    return {sender: message.round for sender, message in found.items()}


MAIL = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 4)), max_size=14, unique=True)


@given(mail=MAIL, here=st.integers(0, 14), number=st.integers(-1, 4), quorum=st.sampled_from([None, 0, 1, 2, 3]))
def test_a_round_is_given_once_a_quorum_of_it_is_here(
    mail: list[tuple[str, int]], here: int, number: int, quorum: int | None
) -> None:
    post = Post(mail, here)
    inbox = Inbox(post, Note)  # type: ignore[arg-type]
    found = ask(inbox, number, "abc", quorum)
    need = 3 if quorum is None else quorum
    of_it = [(sender, at) for sender, at in mail if at == number]
    assert (found is None) == (len(of_it) < need)
    if found is not None:
        seen = mail[: len(mail) - len(post.coming)]
        assert found == {sender: at for sender, at in seen if at == number}
        assert len(found) == need or not len(seen) > here, "did not wait longer than it had to"
        assert len(inbox) == sum(at > number for _, at in seen), "what is older is forgotten, what is newer kept"


@given(mail=MAIL, here=st.integers(0, 14), since=st.integers(-3, 4), quorum=st.sampled_from([None, 0, 1, 2, 3]))
def test_the_newest_is_given_once_a_quorum_is_fresh_enough(
    mail: list[tuple[str, int]], here: int, since: int, quorum: int | None
) -> None:
    post = Post(mail, here)
    inbox = Inbox(post, Note)  # type: ignore[arg-type]
    found = ask(inbox, since, "abc", quorum, newest=True)
    need = 3 if quorum is None else quorum
    assert (found is None) == (len({sender for sender, at in mail if at >= since}) < need)
    if found is not None:
        seen = mail[: len(mail) - len(post.coming)]
        newest = {sender: max(at for who, at in seen if who == sender) for sender, _ in seen}
        assert found == {sender: at for sender, at in newest.items() if at >= since}
        assert ask(inbox, since, "abc", quorum, newest=True) == found, "the newest may be used again"


@pytest.mark.parametrize("late", [0, 1, 2])
def test_what_comes_late_is_dropped_on_sight(late: int) -> None:
    post = Post([("a", 2), ("b", late), ("b", 4)], 1)
    inbox = Inbox(post, Note)  # type: ignore[arg-type]
    assert ask(inbox, 2, "ab", 1) == {"a": 2}
    assert ask(inbox, 3, "ab", 1) is None, "it still waits"
    assert len(inbox) == 1, "and keeps only what may be wanted"
