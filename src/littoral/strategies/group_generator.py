"""Who averages with whom in Prague: requests in, groups out. No node, no clock, no waiting: only decisions.

A worker is locked while it is in a group that has begun. Locks are taken here, all of a group's or none, so nobody
holds one and waits for another. Groups that share a member begin in the order in which they were formed, so none
waits for ever, and all members meet them in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from littoral.strategies.group_schedule import cut


@dataclass(frozen=True, slots=True)
class Group:
    """Members that average their models; ``answers`` are those whose request for a group this one satisfies."""

    number: int
    members: tuple[str, ...]
    answers: tuple[str, ...]


class Generator(ABC):
    """The part that all generators share: locks, and turns of those that wait for them. Subclasses form groups."""

    def __init__(self, members: Sequence[str], size: int, dice: Random) -> None:
        self.members, self.size, self._dice = tuple(members), min(size, len(members)), dice
        self.locks: dict[str, Group] = {}  # by worker: the group that it is in
        self.pending: list[Group] = []  # formed, but a member is locked or has an earlier group to go to
        self._numbers = count(1)

    def request(self, worker: str) -> list[Group]:
        """A worker wants a group. The groups that begin now, perhaps others than its own, are to be told."""
        self.pending += self._form(worker)
        return self._begin()

    def done(self, worker: str, number: int) -> list[Group]:
        """A worker has the mean of its group; the groups that begin now."""
        group = self.locks.pop(worker)
        if group.number != number:
            raise RuntimeError(f"{worker} was in group {group.number}, and says that it is done with {number}")
        self._met(group)
        return self._begin()

    @abstractmethod
    def _form(self, worker: str) -> list[Group]:
        """The groups that a worker's request leads to."""

    def _met(self, group: Group) -> None:  # noqa: B027 (most need not know)
        """Somebody has the group's mean, so all its members were there."""

    def _group(self, members: Collection[str], answers: Collection[str] = ()) -> Group:
        """In everybody's order, which collectives need to be the same on all."""
        ordered = tuple(member for member in self.members if member in members)
        return Group(next(self._numbers), ordered, tuple(answers) or ordered)

    def _begin(self) -> list[Group]:
        begun, later, taken = [], [], set(self.locks)
        for group in self.pending:
            if taken.isdisjoint(group.members):
                begun.append(group)
                self.locks.update(dict.fromkeys(group.members, group))
            else:
                later.append(group)
            taken.update(group.members)
        self.pending = later
        return begun


class RandomGroups(Generator):
    """Every request draws a group of its own. Simple, and full of conflicts: the paper's first generator."""

    def _form(self, worker: str) -> list[Group]:
        rest = [member for member in self.members if member != worker]
        return [self._group([worker, *self._dice.sample(rest, self.size - 1)], [worker])]


class SmartGroups(Generator):
    """Group buffer, group division and slow-worker filter (Prague's smart generator).

    A request is answered by a group that somebody else's request has already put the worker into. If there is none,
    all workers that are not promised to a group are divided at once into groups of ``size`` at most. Left out are
    those who stand ``threshold`` iterations or more behind the one who asked (0: nobody is); they still ask themselves.

    Re-basing: whoever was outpaced by nobody while it worked on its last ``threshold`` iterations is not slow, but
    was, or had to wait for somebody who is. It stands level again, or it would be left out for ever.

    ``layered`` (inter-intra): a division makes two groups for everyone: one for a head of each site with other heads
    and for the rest of each site, then one for each whole site. Who is slow takes no part in the second, for which
    the others would have to wait until its next iteration.
    """

    def __init__(
        self, sites: Mapping[str, Sequence[str]], size: int, dice: Random, *, threshold: int = 0, layered: bool = False
    ) -> None:
        super().__init__([member for team in sites.values() for member in team], size, dice)
        self.standing = dict.fromkeys(self.members, 0)  # iterations of each, as the filter counts them
        self.divisions = 0
        self._site_of = {member: site for site, team in sites.items() for member in team}
        self._threshold, self._layered = threshold, layered
        self._asked = dict.fromkeys(self.members, 0)
        self._given = dict.fromkeys(self.members, 0)  # groups formed with each
        self._reached = dict.fromkeys(self.members, 0)  # of those, how many it has come to for all we know
        self._turns: dict[int, dict[str, int]] = {}  # by group: the how many-th of each member it is
        self._began = dict.fromkeys(self.members, 0)  # where the front was when each began to work
        self._outpaced: dict[str, deque[int]] = {member: deque(maxlen=threshold) for member in self.members}

    def _form(self, worker: str) -> list[Group]:
        self._asked[worker] += 1
        self._reach(worker, self._asked[worker])
        self._rebase(worker)
        return self._divide(worker) if self._given[worker] < self._asked[worker] else []

    def done(self, worker: str, number: int) -> list[Group]:
        begun = super().done(worker, number)
        self._began[worker] = max(self.standing.values())
        return begun

    def _met(self, group: Group) -> None:
        # Its members' requests may still be on their way here, but nobody need wait for those to call them free.
        for member, turn in self._turns.pop(group.number, {}).items():
            self._reach(member, turn)

    def _reach(self, worker: str, turn: int) -> None:
        ahead = max(0, turn - self._reached[worker])
        self._reached[worker] += ahead
        self.standing[worker] += ahead

    def _rebase(self, worker: str) -> None:
        """The front's steps while this one worked, its waiting left out, say whether it is slow."""
        front = max(self.standing.values())
        self._outpaced[worker].append(front - self._began[worker])
        if len(self._outpaced[worker]) == self._threshold >= sum(self._outpaced[worker]):
            self.standing[worker] = front

    def _keeps_up(self, worker: str, front: int) -> bool:
        return not self._threshold or front - self.standing[worker] < self._threshold

    def _divide(self, worker: str) -> list[Group]:
        self.divisions += 1
        free = [m for m in self.members if m != worker and self._given[m] <= self._reached[m]]
        free = [m for m in free if self._keeps_up(m, self.standing[worker])]
        layers = self._layers([worker, *free])
        return [self._schedule(members) for layer in layers for members in layer]

    def _layers(self, free: list[str]) -> list[list[list[str]]]:
        self._dice.shuffle(free)
        teams: dict[str, list[str]] = {}
        for member in free:
            teams.setdefault(self._site_of[member], []).append(member)
        if not self._layered or len(teams) == 1:
            return [cut(free, self.size)]
        first = cut([team[0] for team in teams.values()], self.size)
        first += [part for team in teams.values() for part in cut(team[1:], self.size)]
        front = max(self.standing[member] for member in free)
        second = [[m for m in team if self._keeps_up(m, front)] for team in teams.values()]
        return [first, [team for team in second if team]]

    def _schedule(self, members: list[str]) -> Group:
        group = self._group(members)
        for member in group.members:
            self._given[member] += 1
        self._turns[group.number] = {member: self._given[member] for member in group.members}
        return group


class ArrivalGroups(Generator):
    """Groups of whoever is ready (Partial Reduce, Miao et al. 2021): as soon as ``size`` are, or the wait is over.

    Speeds would decide who meets whom, and the fast might never meet the slow. So whenever the last groups leave
    somebody unconnected, the next one must bridge two parts, and waits until it can.
    """

    def __init__(self, members: Sequence[str], size: int, dice: Random) -> None:
        super().__init__(members, size, dice)
        self.ready: list[str] = []
        self.ticket = 0  # grows when somebody begins to wait: for ``expire`` after the longest wait
        self._overdue = False
        self._recent: deque[tuple[str, ...]] = deque(maxlen=2 * len(self.members))

    def expire(self, ticket: int) -> list[Group]:
        """Those who have waited since this ticket have done so for long enough."""
        if ticket != self.ticket or not self.ready:
            return []
        self._overdue = True
        self.pending += self._closed()
        return self._begin()

    def _form(self, worker: str) -> list[Group]:
        self.ticket += not self.ready
        self.ready.append(worker)
        return self._closed()

    def _closed(self) -> list[Group]:
        groups = []
        while self.ready and (self._overdue or len(self.ready) >= self.size):
            chosen = self._chosen()
            if chosen is None:
                break
            self.ready = [worker for worker in self.ready if worker not in chosen]
            self._recent.append(tuple(chosen))
            self._overdue = False
            self.ticket += bool(self.ready)
            groups.append(self._group(chosen))
        return groups

    def _chosen(self) -> list[str] | None:
        """The first that came, and if need be one from another part."""
        chosen = self.ready[: self.size]
        part = components(self.members, self._recent) if len(self._recent) == self._recent.maxlen else {}
        if len(set(part.values())) > 1 and len({part[worker] for worker in chosen}) == 1:
            others = [worker for worker in self.ready if part[worker] != part[chosen[0]]]
            if not others:
                return None
            chosen = [*chosen[: max(1, self.size - 1)], others[0]]
        return chosen


def components(members: Iterable[str], groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """Who is connected by groups: for each member one that stands for its part."""
    part = {member: member for member in members}
    for group in groups:
        joined = {part[worker] for worker in group}
        if len(joined) > 1:
            part = {member: part[group[0]] if p in joined else p for member, p in part.items()}
    return part
