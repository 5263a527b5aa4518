"""Prague: what its generators promise on their own, and what runs with them do. Numbers are those of the invariants
that the paper's algorithm must keep: doubly stochastic groups (1), locks (2), mixing (3), bytes (4), degenerate groups
(5), no deadlock (6), the slow-worker filter (7), static schedules (8), few generations and conflicts (9)."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spy import Case, Log, cases, spied

from littoral.errors import InputError
from littoral.events import Computed, NodeLost
from littoral.job import Job
from littoral.learning.leases import Lease
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.strategies.group_generator import ArrivalGroups, Generator, Group, RandomGroups, SmartGroups, components
from littoral.strategies.group_schedule import cycle, static_groups
from littoral.strategies.groups import GroupMean, GroupShare
from littoral.strategies.prague import Prague, PragueDone, PragueGroup, PragueRequest
from littoral.strategies.strategy import make_strategy
from littoral.testing import check_strategy, fail_at, live, simulate, small_continuum, small_job
from littoral.worlds.processes.launch import Forge
from littoral.worlds.processes.node import ProcessNode

KINDS = ("smart", "random", "arrival")


# -- generators alone -------------------------------------------------------------------------------------------


@dataclass
class Setup:
    """Workers at sites, a generator's settings, and how quick each worker is."""

    sites: dict[str, list[str]]
    kind: str
    size: int
    threshold: int
    layered: bool
    pace: dict[str, float]
    seed: int

    @property
    def members(self) -> list[str]:
        return [member for team in self.sites.values() for member in team]

    def generator(self) -> Generator:
        dice = random.Random(self.seed)
        if self.kind == "random":
            return RandomGroups(self.members, self.size, dice)
        if self.kind == "arrival":
            return ArrivalGroups(self.members, self.size, dice)
        return SmartGroups(self.sites, self.size, dice, threshold=self.threshold, layered=self.layered)


@st.composite
def setups(draw: Any) -> Setup:
    names = count(1)
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    sites = {f"s{i}": [f"w{next(names)}" for _ in range(size)] for i, size in enumerate(sizes)}
    return Setup(
        sites, draw(st.sampled_from(KINDS)), draw(st.integers(2, 5)), draw(st.integers(0, 3)), draw(st.booleans()),
        {w: draw(st.sampled_from([0.1, 1.0])) for team in sites.values() for w in team}, draw(st.integers(0, 10**6)),
    )  # fmt: skip


class Yard:
    """Workers and a generator that exchange messages which take any time, in order from and to each worker."""

    def __init__(self, setup: Setup, check: Any, patient: bool = False) -> None:
        self.patient = patient
        self.setup, self.generator, self.dice, self._check = setup, setup.generator(), random.Random(setup.seed), check
        self.iterations = dict.fromkeys(setup.members, 0)
        self.requests = 0
        self.formed: list[Group] = []
        self.told: dict[str, list[Group]] = {w: [] for w in setup.members}  # in the order in which each hears of them
        self.up: dict[str, deque[Any]] = {w: deque() for w in setup.members}
        self.down: dict[str, deque[Group]] = {w: deque() for w in setup.members}
        self.heard: dict[str, deque[Group]] = {w: deque() for w in setup.members}
        self.working = set(setup.members)
        self.asked: set[str] = set()
        self.inside: dict[int, set[str]] = defaultdict(set)

    def step(self) -> None:
        """One thing that can happen now, quick workers' first. INVARIANT 6: there always is one."""
        acts = []
        for w in self.setup.members:
            if w in self.working:
                acts += [(self.setup.pace[w], self._finish, w)] + [(0.2, self._ask, w)] * (w not in self.asked)
            elif self.heard[w]:
                group = self.heard[w][0]
                if w not in self.inside[group.number]:
                    acts.append((1.0, self._enter, w))
                elif len(self.inside[group.number]) == len(group.members):
                    acts.append((1.0, self._leave, w))
            acts += [(1.0, self._deliver_up, w)] * bool(self.up[w])
            acts += [(1.0, self._deliver_down, w)] * bool(self.down[w])
        generator = self.generator
        if isinstance(generator, ArrivalGroups) and generator.ready and not self.patient:
            acts.append((0.3, lambda _: self._tell(generator.expire(generator.ticket)), ""))
        assert acts, "everybody waits for somebody"
        _, act, w = self.dice.choices(acts, [weight for weight, *_ in acts])[0]
        act(w)

    def _ask(self, w: str) -> None:
        self.asked.add(w)
        self.up[w].append(None)

    def _finish(self, w: str) -> None:
        if w not in self.asked:
            self._ask(w)
        self.working.discard(w)

    def _enter(self, w: str) -> None:
        self.inside[self.heard[w][0].number].add(w)

    def _leave(self, w: str) -> None:
        group = self.heard[w].popleft()
        self.up[w].append(group.number)
        if w in group.answers:
            self.iterations[w] += 1
            self.asked.discard(w)
            self.working.add(w)

    def _deliver_up(self, w: str) -> None:
        number = self.up[w].popleft()
        if number is None:
            self.requests += 1
            before = len(self.generator.pending)
            begun = self.generator.request(w)
            self.formed += [g for g in begun + self.generator.pending[before:] if g not in self.formed]
            self._check(self, w)
        else:
            begun = self.generator.done(w, number)
        self._tell(begun)

    def _tell(self, groups: list[Group]) -> None:
        for group in groups:
            for member in group.members:
                self.down[member].append(group)
                self.told[member].append(group)

    def _deliver_down(self, w: str) -> None:
        self.heard[w].append(self.down[w].popleft())


def keeps_locks(yard: Yard) -> None:
    """INVARIANT 2: who is locked is in exactly one group that began and that it is not done with."""
    for w in yard.setup.members:
        unfinished = [*yard.heard[w], *yard.down[w], *(number for number in yard.up[w] if number is not None)]
        lock = yard.generator.locks.get(w)
        assert [getattr(group, "number", group) for group in unfinished] == ([] if lock is None else [lock.number])


def keeps_out_the_slow(yard: Yard, asked: str) -> None:
    """INVARIANT 7: nobody who stands so far behind the one who asked is in the groups that this makes."""
    generator, threshold = yard.generator, yard.setup.threshold
    if isinstance(generator, SmartGroups) and threshold:
        fresh = [group for group in yard.formed if group.number > getattr(yard, "last", 0)]
        for member in {member for group in fresh for member in group.members if asked in group.members}:
            assert generator.standing[asked] - generator.standing[member] < threshold
    yard.last = max((group.number for group in yard.formed), default=0)  # type: ignore[attr-defined]


@given(setup=setups())
def test_no_deadlock_whatever_the_delays(setup: Setup) -> None:
    """Invariants 2, 6, 7 and 9, and one order of groups for all their members."""
    yard = Yard(setup, keeps_out_the_slow)
    while min(yard.iterations.values()) < 4:
        yard.step()
        keeps_locks(yard)
    for told in yard.told.values():
        numbers = [group.number for group in told]
        assert numbers == sorted(set(numbers))  # everybody's groups begin in the order in which they were formed
    if isinstance(yard.generator, SmartGroups):
        assert yard.generator.divisions <= yard.requests
        slots = sum(len(group.members) for group in yard.formed)
        ahead = (2 if setup.layered else 1) + 1  # groups that a worker is given before it asks for them
        assert slots <= yard.requests + ahead * len(setup.members) * 2
    if not setup.layered or setup.kind != "smart":
        assert all(len(group.members) <= setup.size for groups in yard.told.values() for group in groups)


def matrix(groups: list[Any], members: list[str]) -> torch.Tensor:
    """F of groups that average at once."""
    result = torch.eye(len(members), dtype=torch.float64)
    for group in groups:
        inside = torch.tensor([member in group for member in members], dtype=torch.float64)
        result = result - torch.diag(inside) + torch.outer(inside, inside) / inside.sum()
    return result


def second_eigenvalue(samples: list[torch.Tensor]) -> float:
    return float(torch.linalg.eigvalsh(sum(f.T @ f for f in samples) / len(samples))[-2])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_groups_mix_as_theory_says(size: int) -> None:
    """Invariants 1 and 3: E[F'F] as the generators themselves make it, among 16."""
    members, dice = [f"w{i}" for i in range(16)], random.Random(1)
    drawn = RandomGroups(members, size, random.Random(2))
    single = [matrix([drawn._form(dice.choice(members))[0].members], members) for _ in range(4000)]
    assert second_eigenvalue(single) == pytest.approx(1 - (size - 1) / 15, abs=0.02)
    full = []
    for seed in range(300):
        division = SmartGroups({"s": members}, size, random.Random(seed)).request(members[seed % 16])
        assert sorted(m for group in division for m in group.members) == sorted(members)
        full.append(matrix([group.members for group in division], members))
    if 16 % size == 0:
        assert second_eigenvalue(full) == pytest.approx((16 - size) / (size * 15), abs=0.05)
    one = torch.ones(16, dtype=torch.float64)
    for f in [*single[:50], *full[:50]]:
        torch.testing.assert_close(f, f.T)
        torch.testing.assert_close(f @ f, f)
        torch.testing.assert_close(f @ one, one)


def rounds_of(generator: Generator, number: int, seed: int = 0) -> list[list[Group]]:
    """Everybody asks, in any order, and is done, again and again; INVARIANT 9: no group ever waits for another."""
    dice, rounds = random.Random(seed), []
    for _ in range(number):
        begun = []
        for w in dice.sample(generator.members, len(generator.members)):
            begun += generator.request(w)
            assert not generator.pending
        for group in begun:
            for member in group.members:
                assert not generator.done(member, group.number)
        rounds.append(begun)
    return rounds


@given(n=st.integers(1, 9), size=st.integers(2, 5), seed=st.integers(0, 999))
def test_a_homogeneous_run_has_one_division_per_round_and_no_conflicts(n: int, size: int, seed: int) -> None:
    members = [f"w{i}" for i in range(n)]
    smart = SmartGroups({"s": members}, size, random.Random(seed), threshold=4)
    for groups in rounds_of(smart, 12, seed):
        assert sorted(m for group in groups for m in group.members) == sorted(members)
        assert all(len(group.members) > 1 for group in groups) or size == 2 or n == 1
    assert smart.divisions == 12


@given(setup=setups())
def test_groups_of_all_are_always_all(setup: Setup) -> None:
    """Invariant 5, whatever is late: a member's mean may be here before another's request."""
    everybody = replace(setup, size=20, threshold=0, layered=False)
    yard = Yard(everybody, lambda *_: None, patient=True)
    while min(yard.iterations.values()) < 4:
        yard.step()
    assert {group.members for groups in yard.told.values() for group in groups} == {tuple(setup.members)}


def test_a_group_of_two_is_a_pair_drawn_at_random() -> None:
    """Invariant 5: as in AD-PSGD, and nobody waits for an answer to a message under way."""
    drawn = RandomGroups(["a", "b", "c", "d"], 2, random.Random(0))
    partners = [next(m for m in drawn._form("b")[0].members if m != "b") for _ in range(300)]
    assert all(80 <= partners.count(other) <= 120 for other in "acd")


def run_for(generator: Generator, pace: dict[str, int], ticks: int) -> list[tuple[str, ...]]:
    """Workers that need so many ticks per iteration; groups are over at once when all members wait for them."""
    due, waiting, met = dict(pace), set(), []
    for now in range(ticks):
        for w in [w for w in generator.members if due[w] == now]:
            generator.request(w)
            waiting.add(w)
        while ready := [g for g in generator.locks.values() if waiting.issuperset(g.members)]:
            met.append(ready[0].members)
            for member in ready[0].members:
                generator.done(member, ready[0].number)
                waiting.discard(member)
                due[member] = now + pace[member]
    return met


def test_who_was_held_up_stands_level_again_but_the_slow_do_not() -> None:
    """Invariant 7: counts alone would leave out for ever whoever once was late."""
    generator = SmartGroups({"s": ["a", "b", "c", "d"]}, 2, random.Random(0), threshold=3)
    pace = {"a": 1, "b": 1, "c": 1, "d": 6}
    met = run_for(generator, pace, 240)
    stands = generator.standing
    assert max(stands[w] for w in "abc") - min(stands[w] for w in "abc") <= 3 < stands["a"] - stands["d"]
    with_slow = [group for group in met[-120:] if "d" in group]
    assert 6 < len(with_slow) < 30 and all(len(group) > 1 for group in with_slow)


def test_a_whole_site_does_not_wait_for_its_slow_worker() -> None:
    """Inter-intra: its request makes two groups, and it would come to the second an iteration later."""
    generator = SmartGroups({"s": ["a", "b"], "t": ["c", "d"]}, 2, random.Random(0), threshold=3, layered=True)
    met = run_for(generator, {"a": 1, "b": 1, "c": 1, "d": 12}, 240)
    assert sum("c" in group for group in met) > 0.7 * 240 and sum("d" in group for group in met) > 12


@given(
    slow=st.integers(1, 3), quick=st.integers(2, 4), size=st.integers(2, 4), ratio=st.integers(2, 30),
    patient=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_groups_of_arrival_stay_connected(
    slow: int, quick: int, size: int, ratio: int, patient: bool, seed: int
) -> None:
    """However much quicker some are, every 3n groups connect everybody, and none has more than its size."""
    members = [f"w{i}" for i in range(slow + quick)]
    generator, dice, groups = ArrivalGroups(members, size, random.Random(seed)), random.Random(seed), []
    due = {w: 1 if i < quick else ratio for i, w in enumerate(members)}
    for now in range(12 * len(members)):
        begun = []
        for w in dice.sample(members, len(members)):
            if due[w] == now:
                begun += generator.request(w)
        begun += [] if patient else generator.expire(generator.ticket)
        for group in begun:
            for member in group.members:
                generator.done(member, group.number)
                due[member] = now + (1 if members.index(member) < quick else ratio)
        groups += [group.members for group in begun]
    window = 3 * len(members)
    for start in range(len(groups) - window + 1):
        assert len(set(components(members, groups[start : start + window]).values())) == 1
    assert all(len(group) <= size for group in groups)


@given(teams=st.lists(st.integers(1, 20), min_size=1, max_size=6), size=st.integers(2, 6), start=st.integers(0, 50))
def test_static_schedules_are_disjoint_and_connect(teams: list[int], size: int, start: int) -> None:
    """Invariant 8."""
    names = count()
    workers = [[f"w{next(names)}" for _ in range(n)] for n in teams]
    members = [w for team in workers for w in team]
    groups = []
    for number in range(start, start + cycle(workers, size)):
        now = static_groups(workers, size, number)
        assert sorted(w for group in now for w in group) == sorted(members)
        assert all(len(group) <= size for group in now)
        groups += now
    assert len(set(components(members, groups).values())) == 1


def test_a_static_schedule_of_a_power_averages_all_in_one_cycle() -> None:
    members = [f"w{i}" for i in range(27)]
    product = torch.eye(27, dtype=torch.float64)
    assert cycle([members], 3) == 3
    for number in range(3):
        product = matrix(static_groups([members], 3, number), members) @ product
    torch.testing.assert_close(product, torch.full((27, 27), 1 / 27, dtype=torch.float64))


# -- runs -------------------------------------------------------------------------------------------------------


SETTINGS = st.fixed_dictionaries(
    {
        "generator": st.sampled_from(["smart", "random", "static", "arrival"]),
        "group_size": st.integers(2, 5),
        "slow_filter": st.integers(0, 4),
        "inter_intra": st.sampled_from(["auto", "on", "off"]),
        "prefetch": st.booleans(),
    }
)


@given(case=cases(crashes=True), settings=SETTINGS, host=st.booleans())
def test_runs_end_whoever_dies_and_groups_are_whole(case: Case, settings: dict[str, Any], host: bool) -> None:
    """Invariants 2, 4 and 6 in runs: the first member, which has the generator, may die too."""
    if host and case.faults:
        case = replace(case, faults=(replace(case.faults[0], node="w-1", seconds=2.0), *case.faults[1:]))
    log = spied(case.job("prague", samples=72, **settings), timing_only=True)
    assert log.story.reason == "epochs"
    assert log.story.contradictions() == []
    one_group_at_a_time(log)
    every_request_is_answered_before_the_next(log)
    bytes_of_a_collective(log)


def one_group_at_a_time(log: Log) -> None:
    """Every worker is done with a group before it speaks of the next, and all members take them in one order."""
    orders: dict[tuple[int, str], list[int]] = defaultdict(list)
    for act in log.of("send", GroupShare):
        order = orders[act.generation, act.node]
        if not order or order[-1] != act.what.number:
            assert act.what.number not in order
            order.append(act.what.number)
    for (generation, node), order in orders.items():
        for (other_generation, other), others in orders.items():
            if generation == other_generation and node < other:
                shared = set(order) & set(others)
                assert [n for n in order if n in shared] == [n for n in others if n in shared]


def every_request_is_answered_before_the_next(log: Log) -> None:
    """A worker averages until its own request is satisfied, then works."""
    answers = {(act.generation, act.what.number): act.what.answers for act in log.of("send", PragueGroup)}
    asked: set[tuple[int, str]] = set()
    for act in log.of("send"):
        key = act.generation, act.node
        if isinstance(act.what, PragueRequest):
            assert key not in asked
            asked.add(key)
        elif isinstance(act.what, PragueDone) and act.node in answers[act.generation, act.what.number]:
            asked.remove(key)


def bytes_of_a_collective(log: Log) -> None:
    """2(g-1)/g of the vector out of every member, in two messages to each other one."""
    length = len(log.story.session.nodes[log.story.plan.workers[0].name].model.vector)
    sent: dict[Any, list[Any]] = defaultdict(list)
    for kind in (GroupShare, GroupMean):
        for act in log.of("send", kind):
            sent[act.generation, act.node, act.what.number, kind].append(act.what.vector)
    for (generation, node, number, kind), means in sent.items():
        if kind is GroupMean:
            both = means + sent[generation, node, number, GroupShare]
            g = len(means) + 1
            if len(both) == 2 * (g - 1):  # nobody died between two messages
                assert abs(sum(map(len, both)) - 2 * (g - 1) / g * length) <= 2 * g


REDUCED: dict[Any, tuple[Any, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered(Prague):
    """Begins with models that differ, and notes what averaging makes of them."""

    name: ClassVar[str] = "scattered"

    async def worker(self, node: Any) -> None:
        node.model.load(node.model.snapshot() + float(node.members.index(node.name)))
        await Prague.worker(self, node)

    async def _reduce(self, node: Any, group: tuple[str, ...], number: int) -> None:
        before = node.model.snapshot()
        await Prague._reduce(self, node, group, number)
        REDUCED[number, node.name, group] = before, node.model.snapshot()


@given(case=cases(least=3, most=5), settings=SETTINGS)
def test_a_group_gets_its_mean_and_the_others_keep_theirs(case: Case, settings: dict[str, Any]) -> None:
    """Invariant 1, with steps too short to matter."""
    REDUCED.clear()
    job = case.job("test_prague:Scattered", epochs=1, samples=48, **settings)
    log = spied(replace(job, recipe={"lr": 1e-30}))
    whole = {(number, group) for number, _, group in REDUCED}
    whole = {(n, group) for n, group in whole if all((n, member, group) in REDUCED for member in group)}
    assert whole
    for number, group in whole:
        before, after = zip(*(REDUCED[number, member, group] for member in group), strict=True)
        assert all(torch.equal(after[0], other) for other in after)
        torch.testing.assert_close(sum(after), sum(before), atol=1e-4, rtol=1e-5)
    final = torch.stack([log.story.session.nodes[w.name].model.vector for w in log.story.plan.workers])
    assert final.mean(1).max() - final.mean(1).min() <= len(final) - 1  # nobody leaves the range they began in


def plain(strategy: str, speeds: tuple[float, ...] = (80.0, 60.0, 40.0), **settings: Any) -> Job:
    job = small_job(strategy=strategy, continuum=small_continuum(speeds), **settings)
    return replace(job, recipe={"warmup": 0, "momentum": 0.0})


def mean_model(story: Any, power: float = 0.0) -> torch.Tensor:
    """The last steps have not been averaged yet; local SGD weighs by the root of the batch."""
    models = [story.session.nodes[w.name].model.vector * w.batch**power for w in story.plan.workers]
    return sum(models) / sum(w.batch**power for w in story.plan.workers)


@pytest.mark.parametrize("generator", ["smart", "static", "arrival"])
def test_groups_of_all_are_synchronous_sgd(generator: str) -> None:
    """Invariant 5, against local SGD with a period of one, and all-reduce; batches are unequal."""
    patient = {"wait_s": 60.0} if generator == "arrival" else {}
    ours = simulate(plain("prague", generator=generator, group_size=3, slow_filter=0, **patient))
    for strategy, settings in (("local_sgd", {"period": 1}), ("allreduce", {})):
        job = plain(strategy, **settings)
        plan = replace(ours.plan, strategy=strategy, parameters=settings)
        theirs = mean_model(simulate(job, plan=plan), 0.5 if strategy == "local_sgd" else 0.0)
        torch.testing.assert_close(mean_model(ours), theirs, atol=1e-5, rtol=0)


def rates(strategy: str, slow: float, seed: int = 0, **settings: Any) -> tuple[list[float], Log]:
    """Samples/s of seven workers while they have work, the last at ``slow`` of the others' speed."""
    speeds = (100.0,) * 6 + (100.0 * slow,)
    continuum = small_continuum(speeds, bandwidth=1e8, latency_s=0.002, jitter=0.05)
    task = {"samples": 7 * 800, "batch": 8}
    job = small_job(strategy=strategy, continuum=continuum, epochs=1, planner="fair", task=task, **settings)
    log, done = spied(job, timing_only=True, seed=seed), []
    for worker in log.story.plan.workers:
        computed = [event for event in log.story.of(Computed) if event.node == worker.name]
        done.append(sum(event.samples for event in computed) / computed[-1].t)
    return done, log


def test_a_slow_worker_does_not_set_the_pace() -> None:
    """Invariant 7: one at a fifth of the others' speed costs them a bounded part; without the filter, and in
    all-reduce, it costs most of it. Workers without work left keep averaging with it."""
    alike, _ = rates("prague", slow=1.0)
    filtered, log = rates("prague", slow=0.2)
    assert min(filtered[:6]) > 0.8 * min(alike[:6])
    assert filtered[6] > 0.75 * 20.0
    unfiltered, _ = rates("prague", slow=0.2, slow_filter=0)
    synchronous, _ = rates("allreduce", slow=0.2)
    assert max(synchronous[:6]) < max(unfiltered[:6]) < 0.65 * min(alike[:6])
    last = max(act.t for act in log.of("computed") if act.node == "w-2" and act.what.lease is not None)
    together = [a.what for a in log.of("send", PragueGroup) if a.t > last + 5 and {"w-2", "w-7"} <= set(a.what.members)]
    assert len(together) > 5


def test_the_next_group_is_known_when_it_is_wanted() -> None:
    """Asking a round trip before the end of an iteration hides the round trip."""
    continuum = small_continuum((100.0,) * 5, bandwidth=1e8, latency_s=0.03)
    times = {}
    for prefetch in (True, False):
        job = small_job(strategy="prague", continuum=continuum, prefetch=prefetch, planner="fair", epochs=10)
        log = spied(job, timing_only=True)
        times[prefetch] = log.story.time_s
        asked = len(log.of("send", PragueRequest))
        assert asked <= len(log.of("computed")) + 5  # once per iteration, however early
    assert times[True] < 0.9 * times[False]


def test_the_next_first_member_takes_over_the_generator() -> None:
    job = small_job(workers=4, strategy="prague", faults=[fail_at("w-1", 1.0)], epochs=6)
    log = spied(job, timing_only=True)
    assert log.story.reason == "epochs" and log.story.of(NodeLost)
    hosts = {act.generation: act.node for act in log.of("send", PragueGroup)}
    assert hosts == {1: "w-1", 2: "w-2"}


def test_inter_intra_keeps_most_groups_inside_sites() -> None:
    """Whole sites every second time, and one head of each site at most in groups between sites."""
    case = Case((50.0,) * 6, (False, True) * 3, 1e6, 0.01, 0.0, "fair", 0, ())
    for settings in ({}, {"generator": "static"}):
        log = spied(case.job("prague", epochs=4, **settings), timing_only=True)
        site = {worker.name: worker.site for worker in log.story.plan.workers}
        pairs: dict[int, list[Any]] = defaultdict(list)
        for act in log.of("send", GroupShare):
            pairs[act.what.number].append((act.node, act.peer))
        groups = []
        for together in pairs.values():
            part = components(site, together)
            groups += [[w for w in site if part[w] == p] for p in set(part.values())]
        between = [group for group in groups if len({site[w] for w in group}) > 1]
        assert between and all(len(group) == 2 for group in between)
        assert sum(len(group) == 3 for group in groups) >= len(between) - 1  # two sites, whole, after each


@pytest.mark.parametrize("generator", ["smart", "random", "static", "arrival"])
def test_contract(generator: str) -> None:
    check_strategy("prague", generator=generator)
    check_strategy("prague", [fail_at("w-2", 0.6, back_after_s=1.5)], generator=generator)
    check_strategy("prague", [fail_at("w-1", 0.6, back_after_s=1.5)], generator=generator)


@pytest.mark.parametrize("generator", ["smart", "random"])
def test_contract_with_processes(generator: str, forge: Forge) -> None:
    """The generator beside the first worker gets that worker's messages there, too."""
    check_strategy("prague", run=lambda job: live(job, launcher=forge), generator=generator)


def test_the_generator_moves_on_with_processes(forge: Forge) -> None:
    job = small_job(strategy="prague", epochs=6, task={"samples": 600}, faults=[fail_at("w-1", 0.2)])
    story = live(job, launcher=forge)
    assert story.reason == "epochs" and story.of(NodeLost) and story.contradictions() == []


def test_a_second_task_does_not_speak_for_the_first() -> None:
    """What the generator's task does must not let a halt in between the worker's commit and its update."""
    job = small_job(strategy="prague")
    task = load_task(job.task, job.task_options, job.recipe)
    plan, endpoint = make_plan(job, task.footprint(), task.recipe), cast(Any, None)

    async def scenario() -> None:
        node = ProcessNode("w-1", plan, None, endpoint, clock=lambda: 0.0, post=lambda message: None,
                           report=lambda event: None, supply=None, seed=0)  # fmt: skip
        await node.commit([Lease(0, "w-1", ())])
        await asyncio.create_task(node.arrived(PragueDone))  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.settled(), 0.01)
        await node.arrived(PragueDone)
        await node.settled()
        node.close()

    asyncio.run(scenario())


def test_planning_expects_members_to_wait_for_each_other() -> None:
    assert make_strategy("prague", {}).limit == 0
    batches = [worker.batch for worker in simulate(small_job(strategy="prague"), timing_only=True).plan.workers]
    assert batches[0] > batches[1] > batches[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"generator": "smrt"}, {"group_size": 1}, {"group_size": 2.5}, {"slow_filter": -1}, {"inter_intra": "maybe"},
        {"wait_s": -1.0}, {"wait_s": float("nan")}, {"prefetch": "yes"}, {"groupsize": 3},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_with_a_remedy(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refusal:
        make_strategy("prague", wrong)
    assert refusal.value.remedy


def test_yaml_words_for_yes_and_no_are_understood() -> None:
    assert make_strategy("prague", {"inter_intra": True}) and make_strategy("prague", {"inter_intra": "off"})


def test_prague_done_names_its_group() -> None:
    """A worker that is in another group than it says is a bug that must be seen."""
    generator = RandomGroups(["a", "b"], 2, random.Random(0))
    (group,) = generator.request("a")
    with pytest.raises(RuntimeError, match="was in group"):
        generator.done("a", group.number + 1)
    assert PragueDone(1) != PragueDone(2)
