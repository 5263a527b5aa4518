"""The coordinator's books of a live run: who may use which samples, and which collectives count.

A collective counts once every member says that it has the result, or, when the group changes, if any survivor has it.
Until then its samples are leased, not used: a result that only the dead had is no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from littoral.events import EpochFinished, Event, Used
from littoral.learning.leases import Lease, Ledger
from littoral.planning.plan import Plan


class Rounds:
    """Which collectives of the present group are reported by whom."""

    def __init__(self) -> None:
        self.counted = 0  # collectives that are in every member's model for good
        self._reports: dict[int, tuple[set[str], tuple[Lease, ...]]] = {}

    def report(self, member: str, number: int, leases: tuple[Lease, ...], members: Sequence[str]) -> list[Lease]:
        """A member has a result; the leases that are now used for good."""
        self._reports.setdefault(number, (set(), leases))[0].add(member)
        used: list[Lease] = []
        while self.counted + 1 in self._reports and self._reports[self.counted + 1][0] >= set(members):
            used += self._count(self.counted + 1)
        return used

    def close(self, top: int) -> list[Lease]:
        """The group changes, and some survivor has everything up to ``top``: that counts, the rest never happened."""
        used: list[Lease] = []
        for number in sorted(self._reports):
            if number <= top:
                used += self._count(number)
        self._reports.clear()
        self.counted = top
        return used

    def _count(self, number: int) -> tuple[Lease, ...]:
        self.counted = max(self.counted, number)
        return self._reports.pop(number)[1]


class Books:
    """Ledger and rounds."""

    def __init__(self, plan: Plan, clock: Callable[[], float], emit: Callable[[Event], None]) -> None:
        self._shards = {worker.name: worker.shard for worker in plan.workers}
        self._epochs = plan.epochs
        self.ledger = Ledger(self._shards, plan.epochs)
        self.rounds = Rounds()
        self._clock, self._emit = clock, emit
        self.last_use_s = 0.0

    def use(self, leases: Sequence[Lease]) -> None:
        """Their gradients are in the model."""
        for lease in leases:
            if not self.ledger.holds(lease):
                continue  # another server said so already
            self.last_use_s = self._clock()
            rows = tuple((span.epoch, span.origin, span.start, span.stop) for span in lease.spans)
            self._emit(Used(self.last_use_s, lease.worker, lease.samples, rows))
            for epoch in self.ledger.finish(lease):
                self._emit(EpochFinished(self.last_use_s, epoch, self.ledger.left))

    def release(self, leases: Sequence[Lease]) -> None:
        """They are not."""
        for lease in leases:
            self.ledger.release(lease)

    def restore(self, state: dict[str, object] | None, rounds: int) -> None:
        """Go back to what a checkpoint said, or to the beginning; leases given out since are void."""
        fresh = Ledger(self._shards, self._epochs).state()
        self.ledger = Ledger.restore(state if state is not None else fresh, after=self.ledger)
        self.rounds = Rounds()
        self.rounds.counted = rounds
