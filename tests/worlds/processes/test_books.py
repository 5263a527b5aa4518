"""Rounds count when all have them, or when a survivor has them; what only the dead had never happened."""

from __future__ import annotations

from littoral.learning.leases import Lease, Span
from littoral.worlds.processes.books import Rounds

EVERYBODY = ("a", "b", "c")


def lease(number: int) -> Lease:
    return Lease(number, "a", (Span(0, "a", number, number + 1),))


def test_a_round_counts_when_the_last_member_has_it() -> None:
    rounds = Rounds()
    assert rounds.report("a", 1, (lease(1),), EVERYBODY) == []
    assert rounds.report("b", 1, (lease(1),), EVERYBODY) == []
    assert rounds.report("c", 1, (lease(1),), EVERYBODY) == [lease(1)]
    assert rounds.counted == 1


def test_rounds_count_in_order_even_if_reports_do_not_come_so() -> None:
    rounds = Rounds()
    for member in EVERYBODY:
        assert rounds.report(member, 2, (lease(2),), EVERYBODY) == []
    for member in ("a", "b"):
        rounds.report(member, 1, (lease(1),), EVERYBODY)
    assert rounds.report("c", 1, (lease(1),), EVERYBODY) == [lease(1), lease(2)]


def test_a_round_of_one_survivor_counts_when_the_group_changes() -> None:
    rounds = Rounds()
    rounds.report("a", 1, (lease(1),), EVERYBODY)
    assert rounds.close(top=1) == [lease(1)]
    assert rounds.counted == 1


def test_a_round_that_only_the_dead_had_never_happened() -> None:
    rounds = Rounds()
    rounds.report("c", 1, (lease(1),), EVERYBODY)
    assert rounds.close(top=0) == []
    assert rounds.report("a", 1, (lease(7),), ("a",)) == [lease(7)]
