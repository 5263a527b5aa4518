"""Who may use which sample when: TODO -> LEASED -> DONE, once per epoch, whatever crashes.

The ledger deals in spans of positions, never in single samples, so a lease costs the same for ten samples or a
million. A span names the shard it comes from (its *origin*) and positions in that shard's order for that epoch;
the order itself is a seeded shuffle that anyone can repeat. Work moves between workers as spans: the origin stays,
so a finished run can prove that every position of every shard was used exactly once per epoch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Span:
    """Positions ``start`` to ``stop`` (exclusive) of one epoch's order of the shard ``origin``."""

    epoch: int
    origin: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def split(self, count: int) -> tuple[Span, Span]:
        """The first ``count`` positions, and the rest."""
        middle = self.start + count
        return Span(self.epoch, self.origin, self.start, middle), Span(self.epoch, self.origin, middle, self.stop)


@dataclass(frozen=True, slots=True)
class Lease:
    """Samples handed to one worker for one step."""

    number: int
    worker: str
    spans: tuple[Span, ...]

    @property
    def samples(self) -> int:
        """How many."""
        return sum(len(span) for span in self.spans)


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers proportional to ``weights`` that sum to ``total`` (largest remainder; ties to the first).

    >>> apportion(10, [1, 1, 1])
    [4, 3, 3]
    """
    whole = sum(weights)
    if whole <= 0:
        raise ValueError("at least one weight must be positive")
    exact = [total * weight / whole for weight in weights]
    shares = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


class Ledger:
    """The one owner of who has what. Everything is plain data; ``state`` and ``restore`` round-trip it."""

    def __init__(self, shards: Mapping[str, int], epochs: int) -> None:
        self.epochs = epochs
        self.total = sum(shards.values())
        self._todo: dict[str, deque[Span]] = {
            worker: deque(Span(epoch, worker, 0, size) for epoch in range(epochs) if size)
            for worker, size in shards.items()
        }
        self._leased: dict[int, Lease] = {}
        self._finished: set[int] = set()
        self._done = [0] * epochs
        self.done = 0  # samples used so far, over all epochs
        self._next = 0

    # -- one step -----------------------------------------------------------------------------------------------

    def lease(self, worker: str, samples: int) -> Lease | None:
        """Up to ``samples`` of the worker's next unfinished epoch; None when it has no work left."""
        todo = self._todo.get(worker)
        if not todo:
            return None
        spans: list[Span] = []
        epoch, room = todo[0].epoch, samples
        while todo and room > 0 and todo[0].epoch == epoch:
            span = todo.popleft()
            if len(span) > room:
                span, rest = span.split(room)
                todo.appendleft(rest)
            spans.append(span)
            room -= len(span)
        self._next += 1
        lease = Lease(self._next, worker, tuple(spans))
        self._leased[lease.number] = lease
        return lease

    def is_valid(self, lease: Lease) -> bool:
        """Whether gradients of this lease may be used: it is held, or was finished, but not taken back."""
        return lease.number in self._leased or lease.number in self._finished

    def holds(self, lease: Lease) -> bool:
        """Whether the lease is out: neither finished nor taken back."""
        return lease.number in self._leased

    def finish(self, lease: Lease) -> list[int]:
        """Its samples were used for good; the epochs that this completes. A second call changes nothing."""
        if self._leased.pop(lease.number, None) is None:
            return []
        self._finished.add(lease.number)
        complete = []
        for span in lease.spans:
            self._done[span.epoch] += len(span)
            self.done += len(span)
            if self._done[span.epoch] == self.total and len(span):
                complete.append(span.epoch)
        return complete

    def release(self, lease: Lease) -> None:
        """Its samples were not used: they are the worker's next work again."""
        if self._leased.pop(lease.number, None) is not None:
            self._give_back(lease.worker, lease.spans)

    # -- membership ---------------------------------------------------------------------------------------------

    def release_all(self, worker: str) -> None:
        """The worker is gone: nothing it holds was used."""
        for lease in [held for held in self._leased.values() if held.worker == worker]:
            self.release(lease)

    def hand_over(self, worker: str, heirs: Mapping[str, float]) -> dict[str, int]:
        """Give the worker's open work to ``heirs`` by weight; how many samples each one got. Without heirs it waits."""
        if not heirs:
            return {}
        spans = self._todo.get(worker, deque())
        self._todo[worker] = deque()
        return self._deal(spans, heirs)

    def hand_over_orphans(self, heirs: Mapping[str, float]) -> None:
        """Give the open work of everyone who is not among ``heirs`` to them."""
        for worker in sorted(self._todo):
            if worker not in heirs:
                self.hand_over(worker, heirs)

    def rebalance(self, weights: Mapping[str, float]) -> dict[str, int]:
        """Share all open work anew among the given workers; how many samples each one now has to do."""
        spans = [span for todo in self._todo.values() for span in todo]
        for todo in self._todo.values():
            todo.clear()
        return self._deal(spans, weights)

    def _deal(self, spans: Iterable[Span], weights: Mapping[str, float]) -> dict[str, int]:
        """Share each epoch's samples by weight, in long stretches; what rounding owes one epoch the next pays."""
        names = sorted(weights)
        got, owed = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
        whole = sum(weights.values())
        for _, group in groupby(_merged(spans), key=lambda span: span.epoch):
            rest = deque(group)
            total = sum(len(span) for span in rest)
            for name in names:
                owed[name] += total * weights[name] / whole
            for name, count in zip(names, _fair_counts(total, [owed[n] for n in names]), strict=True):
                owed[name] -= count
                got[name] += count
                for part in _take(rest, count):
                    self._insert(name, part)
        return got

    def _give_back(self, worker: str, spans: Iterable[Span]) -> None:
        self._todo.setdefault(worker, deque()).extendleft(reversed(list(spans)))

    def _insert(self, worker: str, span: Span) -> None:
        """Keep each worker's work in order of epochs."""
        todo = self._todo.setdefault(worker, deque())
        index = len(todo)
        while index and todo[index - 1].epoch > span.epoch:
            index -= 1
        todo.insert(index, span)

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Samples not yet used, over all epochs."""
        return self.total * self.epochs - self.done

    @property
    def next_number(self) -> int:
        """Every lease given out so far has a lower number."""
        return self._next + 1

    def upcoming(self, worker: str, samples: int) -> Iterator[Span]:
        """What the worker's next lease of up to ``samples`` would hold."""
        todo: Sequence[Span] = self._todo.get(worker, deque())
        for span in todo:
            if samples <= 0 or span.epoch != todo[0].epoch:
                return
            yield span.split(min(samples, len(span)))[0]
            samples -= len(span)

    def open(self, worker: str) -> int:
        """Samples the worker has still to lease."""
        return sum(len(span) for span in self._todo.get(worker, ()))

    def has_work(self, worker: str) -> bool:
        """Whether the worker has samples to lease, or leases that are out."""
        return bool(self._todo.get(worker)) or any(lease.worker == worker for lease in self._leased.values())

    def state(self) -> dict[str, object]:
        """Plain data; what is leased counts as not used."""
        todo = {worker: list(spans) for worker, spans in self._todo.items()}
        for lease in self._leased.values():
            todo[lease.worker] = list(lease.spans) + todo[lease.worker]
        rows = {
            w: [[s.epoch, s.origin, s.start, s.stop] for s in sorted(spans, key=_order)] for w, spans in todo.items()
        }
        return {"epochs": self.epochs, "total": self.total, "done": list(self._done), "todo": rows}

    @classmethod
    def restore(cls, state: Mapping[str, object], after: Ledger | None = None) -> Ledger:
        """The ledger that ``state`` was taken from; leases given out by ``after`` stay invalid in it."""
        epochs, total, done, todo = state["epochs"], state["total"], state["done"], state["todo"]
        assert isinstance(epochs, int) and isinstance(total, int)
        assert isinstance(done, list) and isinstance(todo, dict)
        ledger = cls({}, epochs)
        ledger.total, ledger._done = total, list(done)
        ledger.done = sum(done)
        ledger._next = after._next if after else 0
        ledger._todo = {worker: deque(Span(*row) for row in rows) for worker, rows in todo.items()}
        return ledger


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same positions in order, in as few spans as possible."""
    merged: list[Span] = []
    for span in sorted(spans, key=_order):
        last = merged[-1] if merged else None
        if last and (last.epoch, last.origin, last.stop) == (span.epoch, span.origin, span.start):
            merged[-1] = Span(last.epoch, last.origin, last.start, span.stop)
        elif len(span):
            merged.append(span)
    return merged


def _take(spans: deque[Span], count: int) -> Iterator[Span]:
    """The first ``count`` positions of some spans, which lose them."""
    while count:
        span = spans.popleft()
        if len(span) > count:
            span, rest = span.split(count)
            spans.appendleft(rest)
        count -= len(span)
        yield span


def _fair_counts(total: int, owed: Sequence[float]) -> list[int]:
    """Whole numbers that sum to ``total`` and come nearest to what each is owed."""
    counts = [max(0, math.floor(share)) for share in owed]
    while sum(counts) > total:
        counts[max(range(len(counts)), key=lambda i: (counts[i] - owed[i], counts[i]))] -= 1
    for i in sorted(range(len(owed)), key=lambda i: (counts[i] - owed[i], i))[: total - sum(counts)]:
        counts[i] += 1
    return counts


def _order(span: Span) -> tuple[int, str, int]:
    return span.epoch, span.origin, span.start


def prove(shards: Mapping[str, int], used: Iterable[Span], epochs: int) -> list[str]:
    """What contradicts "each sample exactly once per epoch" among the spans used; empty when it holds."""
    by_shard: dict[tuple[int, str], list[Span]] = {}
    for span in used:
        by_shard.setdefault((span.epoch, span.origin), []).append(span)
    wrong = []
    for epoch in range(epochs):
        for origin, size in shards.items():
            at = 0
            for span in sorted(by_shard.pop((epoch, origin), []), key=lambda each: each.start):
                if span.start != at:
                    what = "used twice" if span.start < at else "never used"
                    low, high = sorted((span.start, at))
                    wrong.append(f"epoch {epoch}, shard {origin}: positions {low}-{high} {what}")
                at = max(at, span.stop)
            if at != size:
                wrong.append(f"epoch {epoch}, shard {origin}: positions {at}-{size} never used")
    wrong += [f"epoch {epoch}, shard {origin}: no such work was planned" for epoch, origin in by_shard]
    return wrong
